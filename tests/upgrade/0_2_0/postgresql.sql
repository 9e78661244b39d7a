--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: alembic_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: changes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.changes (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    environment text NOT NULL,
    integration_id text NOT NULL,
    connection_id text NOT NULL
);


--
-- Name: changes_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.changes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: changes_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.changes_id_seq OWNED BY public.changes.id;


--
-- Name: connect_sessions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.connect_sessions (
    digest text NOT NULL,
    environment text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    end_user json,
    tags json NOT NULL,
    allowed_integrations json NOT NULL,
    defaults bytea NOT NULL,
    overrides json NOT NULL,
    webhook_url_override text,
    connection_id text,
    integration_id text,
    key_id text,
    single_use boolean DEFAULT false NOT NULL,
    max_connections integer,
    connections_made integer DEFAULT 0 NOT NULL,
    browser_digest text,
    code_challenge text,
    return_url text,
    return_state text
);


--
-- Name: connection_history; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.connection_history (
    id bigint NOT NULL,
    connection bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    state text NOT NULL,
    state_before text,
    reason text NOT NULL,
    detail text
);


--
-- Name: connection_history_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.connection_history_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: connection_history_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.connection_history_id_seq OWNED BY public.connection_history.id;


--
-- Name: connection_tags; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.connection_tags (
    connection bigint NOT NULL,
    key text NOT NULL,
    value text NOT NULL
);


--
-- Name: connections; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.connections (
    id bigint NOT NULL,
    uid text NOT NULL,
    environment text NOT NULL,
    integration_id text NOT NULL,
    connection_id text NOT NULL,
    provider text NOT NULL,
    version integer NOT NULL,
    credential bytea NOT NULL,
    expires_at timestamp with time zone,
    config json NOT NULL,
    secret_config bytea,
    secret_config_version integer,
    metadata json,
    tags json NOT NULL,
    end_user json,
    end_user_id text,
    organization_id text,
    search_text text NOT NULL,
    webhook_url_override text,
    lease_owner text,
    lease_until timestamp with time zone,
    failure_code text,
    failure_message text,
    failure_final boolean,
    failure_at timestamp with time zone,
    failure_attempts integer,
    failure_retry_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    last_fetched_at timestamp with time zone,
    last_refreshed_at timestamp with time zone,
    state text DEFAULT 'active'::text NOT NULL,
    state_reason text,
    state_since timestamp with time zone,
    granted_at timestamp with time zone,
    intent_digest text,
    intent_at timestamp with time zone,
    previous_refresh bytea,
    previous_refresh_version integer,
    previous_refresh_until timestamp with time zone,
    dies_at timestamp with time zone,
    keep_alive_at timestamp with time zone,
    expiry_told_days integer,
    site_origin text,
    account_id text,
    account_label text,
    end_settled boolean,
    rotates boolean
);


--
-- Name: connections_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.connections_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: connections_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.connections_id_seq OWNED BY public.connections.id;


--
-- Name: data_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.data_keys (
    number bigint NOT NULL,
    id text NOT NULL,
    environment text NOT NULL,
    master_key_id text NOT NULL,
    wrapped bytea NOT NULL,
    seals_reserved bigint NOT NULL,
    created_at timestamp with time zone NOT NULL
);


--
-- Name: data_keys_number_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.data_keys_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: data_keys_number_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.data_keys_number_seq OWNED BY public.data_keys.number;


--
-- Name: deliveries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deliveries (
    id bigint NOT NULL,
    outbox bigint NOT NULL,
    message_id text NOT NULL,
    at timestamp with time zone NOT NULL,
    environment text NOT NULL,
    integration_id text NOT NULL,
    connection_id text,
    sequence text,
    target text NOT NULL,
    state text NOT NULL,
    attempts integer NOT NULL,
    due_at timestamp with time zone,
    give_up_at timestamp with time zone NOT NULL,
    lease_owner text,
    lease_until timestamp with time zone,
    status integer,
    detail text,
    ended_at timestamp with time zone
);


--
-- Name: deliveries_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.deliveries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: deliveries_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.deliveries_id_seq OWNED BY public.deliveries.id;


--
-- Name: environments; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.environments (
    name text NOT NULL,
    created_at timestamp with time zone NOT NULL
);


--
-- Name: flow_results; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.flow_results (
    id bigint NOT NULL,
    environment text NOT NULL,
    session_digest text NOT NULL,
    client_digest text,
    integration_id text NOT NULL,
    connection_id text,
    is_pending boolean NOT NULL,
    error_type text,
    error_desc text,
    code text,
    at timestamp with time zone NOT NULL,
    flow_digest text,
    browser_digest text
);


--
-- Name: flow_results_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.flow_results_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: flow_results_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.flow_results_id_seq OWNED BY public.flow_results.id;


--
-- Name: flows; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.flows (
    state_digest text NOT NULL,
    browser_digest text NOT NULL,
    environment text NOT NULL,
    integration_id text NOT NULL,
    connection_id text NOT NULL,
    session_digest text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    details bytea NOT NULL
);


--
-- Name: integrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.integrations (
    uid text NOT NULL,
    environment text NOT NULL,
    integration_id text NOT NULL,
    provider text NOT NULL,
    version integer NOT NULL,
    display_name text,
    forward_webhooks boolean NOT NULL,
    scopes json,
    secrets bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    ending_at timestamp with time zone
);


--
-- Name: keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.keys (
    id bigint NOT NULL,
    digest text NOT NULL,
    environment text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    last_four text NOT NULL,
    scopes json NOT NULL,
    limits json NOT NULL,
    rate integer,
    budget bigint,
    calls bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    parent_id bigint,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone
);


--
-- Name: keys_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: keys_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.keys_id_seq OWNED BY public.keys.id;


--
-- Name: outbox; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.outbox (
    id bigint NOT NULL,
    uid text NOT NULL,
    at timestamp with time zone NOT NULL,
    environment text NOT NULL,
    integration_id text NOT NULL,
    provider text NOT NULL,
    event text NOT NULL,
    facts json NOT NULL,
    sealed bytea
);


--
-- Name: outbox_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: outbox_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.outbox_id_seq OWNED BY public.outbox.id;


--
-- Name: pending_connections; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pending_connections (
    uid text NOT NULL,
    environment text NOT NULL,
    session_digest text NOT NULL,
    integration_id text NOT NULL,
    connection_id text NOT NULL,
    code_challenge text NOT NULL,
    wrong_verifiers integer DEFAULT 0 NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    sealed bytea
);


--
-- Name: request_log; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.request_log (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    request_id text NOT NULL,
    environment text NOT NULL,
    integration_id text NOT NULL,
    connection_id text NOT NULL,
    method text NOT NULL,
    host text NOT NULL,
    path text NOT NULL,
    status integer NOT NULL,
    duration_ms double precision NOT NULL,
    bytes_in bigint NOT NULL,
    bytes_out bigint NOT NULL,
    error_code text
);


--
-- Name: request_log_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.request_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: request_log_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.request_log_id_seq OWNED BY public.request_log.id;


--
-- Name: signing_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.signing_keys (
    uid text NOT NULL,
    environment text NOT NULL,
    number integer NOT NULL,
    key bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    retires_at timestamp with time zone
);


--
-- Name: task_leases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.task_leases (
    name text NOT NULL,
    owner text NOT NULL,
    until timestamp with time zone NOT NULL
);


--
-- Name: timelines; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.timelines (
    timeline text NOT NULL,
    since timestamp with time zone NOT NULL
);


--
-- Name: webhooks_seen; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhooks_seen (
    digest text NOT NULL,
    at timestamp with time zone NOT NULL
);


--
-- Name: changes id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.changes ALTER COLUMN id SET DEFAULT nextval('public.changes_id_seq'::regclass);


--
-- Name: connection_history id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connection_history ALTER COLUMN id SET DEFAULT nextval('public.connection_history_id_seq'::regclass);


--
-- Name: connections id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connections ALTER COLUMN id SET DEFAULT nextval('public.connections_id_seq'::regclass);


--
-- Name: data_keys number; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.data_keys ALTER COLUMN number SET DEFAULT nextval('public.data_keys_number_seq'::regclass);


--
-- Name: deliveries id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deliveries ALTER COLUMN id SET DEFAULT nextval('public.deliveries_id_seq'::regclass);


--
-- Name: flow_results id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.flow_results ALTER COLUMN id SET DEFAULT nextval('public.flow_results_id_seq'::regclass);


--
-- Name: keys id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.keys ALTER COLUMN id SET DEFAULT nextval('public.keys_id_seq'::regclass);


--
-- Name: outbox id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.outbox ALTER COLUMN id SET DEFAULT nextval('public.outbox_id_seq'::regclass);


--
-- Name: request_log id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.request_log ALTER COLUMN id SET DEFAULT nextval('public.request_log_id_seq'::regclass);


--
-- Data for Name: alembic_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.alembic_version VALUES ('0014');


--
-- Data for Name: changes; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.changes VALUES (1, '2026-11-23 06:07:46.475239+00', 'production', 'crm', 'valid');
INSERT INTO public.changes VALUES (2, '2026-11-23 06:07:46.558751+00', 'production', 'crm', 'valid');
INSERT INTO public.changes VALUES (3, '2026-11-23 06:07:46.582169+00', 'production', 'crm', 'valid');
INSERT INTO public.changes VALUES (4, '2026-11-23 06:07:46.604373+00', 'production', 'git', 'git');
INSERT INTO public.changes VALUES (5, '2026-11-23 06:07:46.635035+00', 'production', 'mail', 'mail');
INSERT INTO public.changes VALUES (6, '2026-11-23 06:07:46.678086+00', 'production', 'ledger', 'ledger');
INSERT INTO public.changes VALUES (7, '2026-11-23 06:07:46.707411+00', 'production', 'machine', 'machine');
INSERT INTO public.changes VALUES (8, '2026-11-23 06:07:46.729285+00', 'production', 'signed', 'signed');
INSERT INTO public.changes VALUES (9, '2026-11-23 06:07:46.754322+00', 'production', 'steps', 'steps');
INSERT INTO public.changes VALUES (10, '2026-11-23 06:07:46.776068+00', 'production', 'cloud', 'cloud');
INSERT INTO public.changes VALUES (11, '2026-11-23 06:07:46.789996+00', 'production', 'open', 'open');
INSERT INTO public.changes VALUES (12, '2026-11-23 06:07:46.810092+00', 'production', 'crm-api', '');
INSERT INTO public.changes VALUES (13, '2026-11-23 06:07:46.822303+00', 'production', 'crm-api', 'made');
INSERT INTO public.changes VALUES (14, '2026-11-23 06:07:46.836183+00', 'production', 'crm-api', '');
INSERT INTO public.changes VALUES (15, '2026-11-23 06:07:46.852223+00', 'production', 'crm', 'refreshed');
INSERT INTO public.changes VALUES (16, '2026-11-23 06:07:46.918443+00', 'production', 'crm', 'refreshed');
INSERT INTO public.changes VALUES (17, '2026-11-23 06:07:46.927063+00', 'production', 'crm', 'dead');
INSERT INTO public.changes VALUES (18, '2026-11-23 06:07:46.958431+00', 'production', 'crm', 'dead');
INSERT INTO public.changes VALUES (19, '2026-11-23 06:07:47.015164+00', 'production', 'crm', 'slow');
INSERT INTO public.changes VALUES (20, '2026-11-23 06:07:47.049983+00', 'production', 'crm', 'slow');
INSERT INTO public.changes VALUES (21, '2026-11-23 06:07:47.068143+00', 'production', 'crm', 'deleted');
INSERT INTO public.changes VALUES (22, '2026-11-23 06:07:47.100774+00', 'production', 'crm', 'deleted');
INSERT INTO public.changes VALUES (23, '2026-11-23 06:07:48.32755+00', 'production', '', 'eff7177155355bd79d19731dded50c5cdaa808de2ecfda697b874591dc8fa3d4');
INSERT INTO public.changes VALUES (24, '2026-11-23 06:07:49.745584+00', 'production', '', 'ca0d895abf615fab12bff0ac6978a5535f0183914296baa5ebb4272ca70f4863');
INSERT INTO public.changes VALUES (25, '2026-11-23 06:07:51.307284+00', 'production', '', 'ca0d895abf615fab12bff0ac6978a5535f0183914296baa5ebb4272ca70f4863');
INSERT INTO public.changes VALUES (26, '2026-11-23 06:07:52.793136+00', 'production', '', '8a81b8427002cfb2d6260963032a36f8c243302401f509cf1e3e14575ab3faf9');
INSERT INTO public.changes VALUES (27, '2026-11-23 06:07:53.242045+00', 'production', '', '0f3ff9feb004e4976dfa97e0c9a2753956251f66cde4beea59faaac1fe6ecf5d');
INSERT INTO public.changes VALUES (28, '2026-11-23 06:07:53.257901+00', 'production', '', '5e95bf9a895f3b0b0c269903ad0b007b8555e501abf8acc0c3c37db9de796c8e');
INSERT INTO public.changes VALUES (29, '2026-11-23 06:07:53.269792+00', 'staging', '', '40ab21f28d363d118ab1741a2aafb4fdca3a5b6026af483d6b8fe23c8aec3851');
INSERT INTO public.changes VALUES (30, '2026-11-23 06:07:54.891107+00', 'staging', 'crm', 'staging-1');
INSERT INTO public.changes VALUES (31, '2026-11-23 06:07:54.906069+00', 'production', 'crm', 'expired');


--
-- Data for Name: connect_sessions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.connect_sessions VALUES ('0dfd503cfc0321eb25c9a9f7f47926da754a34950b4cb99343004bbd4b315f81', 'production', '2026-11-23 06:37:46.984113+00', NULL, '{}', '["crm"]', '\x01a2c88de281b6473a5262919602141d00ad8559021a96429d395b23076b4b65abf45d2736fb0f70084e0ded', '{}', NULL, 'dead', 'crm', '', false, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('0919c980de2fdbc9d8762c9d966e84a65f84fd1b17f6f539ba6253142b0a57a7', 'production', '2026-11-23 06:37:47.148008+00', NULL, '{}', '["crm"]', '\x01a2c88de281b6473a53d34b32b934e83e4017a85e9f4dcf6ed29f1e0acec5f76ead9f36422221', '{}', NULL, 'nobody', NULL, '', false, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('dfab24711a9905945d0b0cfa35953e0a1f2ad649c4deb074835b09bb4397f4fb', 'production', '2026-11-30 06:07:53.29787+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve"}', '["crm","mail"]', '\x01a2c88de281b6473a794c622515d4d423e62b9d8dc7ae8a3aeaf599dec1cf17b88b53143e8054', '{}', NULL, NULL, NULL, '', false, 5, 0, NULL, NULL, 'https://app.example.com/back?tab=2', 'state of the application');
INSERT INTO public.connect_sessions VALUES ('81cd85f607ce77b5655cb6e921bf6d4e0d6213d01949cb4023cf612767c5c9c7', 'production', '2026-11-30 06:07:53.30493+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve","organization_id":"acme","organization_display_name":"Acme"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve","organization_id":"acme","organization_display_name":"Acme","team":"blue"}', '[]', '\x01a2c88de281b6473a0df866a4301312a4b06aab92948488724a1a023e5c3309d98cf8d3029c530a3bc4eb623fedaa1e0e8b9c55943c9bf91f5ba4e671b27d41c71ff2939899cb2fb7cce651e742077b4dc6', '{}', 'https://127.0.0.1/hooks/override', NULL, NULL, '', false, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('0ef327596858a4747e454eb1b495b75808e8c27d6ab9d9424ab3960082a3c2c4', 'production', '2026-11-30 06:07:53.334367+00', '{"id":"ada","email":"ada@example.com","display_name":"Ada","tags":{"plan":"gold"}}', '{"plan":"gold","end_user_id":"ada","end_user_email":"ada@example.com","end_user_display_name":"Ada","team":"red"}', '["crm"]', '\x01a2c88de281b6473a685fdc3f13c43a1ed372ce1113455980f2d74199da12483481d351ec7a6e', '{}', NULL, 'valid', 'crm', '', false, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('12fa0f87549fda5789d3927addd584fc618e9512de656a46c19cf0c22569bd28', 'production', '2026-11-30 06:07:53.308914+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve"}', '["crm"]', '\x01a2c88de281b6473a5b74f215698ab097f5bd75cb4e0dcfeba21825bcd75fb4c9fe4a152c9eb9', '{}', NULL, NULL, NULL, '', true, 1, 0, '3d8ff5d3c3b6296630eb59f99c5c6fa6cc1aa5b48551d535d148436bf0a2d072', NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('a8d3ffbeff4eff978ea35d532356819cc1c6a6976f8b75e38cf8b5773096a21e', 'staging', '2026-11-30 06:07:53.316441+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve"}', '[]', '\x0167a13f6504d2610f526cf246d9441851856be5f3da5d571ba7f75afe0c91668766123926d4e4', '{}', NULL, NULL, NULL, '', false, NULL, 1, '9dffc715035cfee003ba1929e504eafa041d0e0913dc641e57ffe29349383358', 'Sz6nUx1dye1gpg1K3jsTgCxLHsPwUK18RMg0342ZEGQ', NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('1f647491cc69e598e010997692e7f8b16f90b9d08db050aa9f2ecb43771b167d', 'staging', '2026-11-30 06:07:53.323175+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve"}', '["mail"]', '\x0167a13f6504d2610f5bae1127c159d7a0746c0bc236ba8e73d9a3153d9369fe0b9476529bc24a', '{}', NULL, NULL, NULL, '', false, NULL, 1, NULL, 'Sz6nUx1dye1gpg1K3jsTgCxLHsPwUK18RMg0342ZEGQ', NULL, NULL);


--
-- Data for Name: connection_history; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.connection_history VALUES (1, 1, '2026-11-23 06:07:46.475239+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (2, 1, '2026-11-23 06:07:46.558751+00', 'active', 'active', 'reconnected', NULL);
INSERT INTO public.connection_history VALUES (3, 3, '2026-11-23 06:07:46.604373+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (4, 4, '2026-11-23 06:07:46.635035+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (5, 5, '2026-11-23 06:07:46.678086+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (6, 6, '2026-11-23 06:07:46.707411+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (7, 7, '2026-11-23 06:07:46.729285+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (8, 8, '2026-11-23 06:07:46.754322+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (9, 9, '2026-11-23 06:07:46.776068+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (10, 10, '2026-11-23 06:07:46.789996+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (11, 11, '2026-11-23 06:07:46.822303+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (12, 12, '2026-11-23 06:07:46.852223+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (13, 13, '2026-11-23 06:07:46.927063+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (14, 13, '2026-11-23 06:07:46.958431+00', 'needs_reauth', 'active', 'invalid_grant', 'It was revoked.');
INSERT INTO public.connection_history VALUES (15, 14, '2026-11-23 06:07:47.015164+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (16, 14, '2026-11-23 06:07:47.049983+00', 'degraded', 'active', 'token_endpoint_unavailable', 'the token endpoint answered 503');
INSERT INTO public.connection_history VALUES (18, 16, '2026-11-23 06:07:54.891107+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (19, 17, '2026-11-23 06:07:54.906069+00', 'active', NULL, 'authorized', NULL);


--
-- Data for Name: connection_tags; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.connection_tags VALUES (1, 'plan', 'gold');
INSERT INTO public.connection_tags VALUES (1, 'end_user_id', 'ada');
INSERT INTO public.connection_tags VALUES (1, 'end_user_email', 'ada@example.com');
INSERT INTO public.connection_tags VALUES (1, 'end_user_display_name', 'Ada');
INSERT INTO public.connection_tags VALUES (1, 'team', 'red');
INSERT INTO public.connection_tags VALUES (4, 'end_user_id', 'bob');
INSERT INTO public.connection_tags VALUES (4, 'team', 'red');
INSERT INTO public.connection_tags VALUES (13, 'end_user_id', 'dee');


--
-- Data for Name: connections; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.connections VALUES (1, '4c85e38265274646971808832c5853f9', 'production', 'crm', 'valid', 'acme-oauth', 2, '\x01a2c88de281b6473add337328c8091d9f11e9faaedbba39308be7282939b2ef95ebabeab90673d1da91826b40b0c5276c21ced6b3b2bdc5e2a24853737081a380c51ebf3bf3369146816d6264e4280404363cebf58a8b96ffa351583e8cc92257050bb267bf6e1385f6cbd5d73f7553bfe51127d5e9f5ccef569ca1f8821d26361d43748aec4fa338906849d96c64c57425770db812d00e3263943e0f18b7341f6eb63509a0b8cc1e48fb2d1644f0fcf6e518a66c596a8b65fbb639d9ae44a097e598bef7e78f53883a9ac053e27279e9c1e895a790145c956d8f7aba0542dce9fc817dc1dd55e9ae3f4c64cf00057d715c3c08a04fabc890a91317ee', '2026-12-23 06:07:46.558+00', '{"region":"eu"}', NULL, NULL, '{"first":1,"list":[1,2.5,"\u00fc"],"null":null}', '{"plan":"gold","end_user_id":"ada","end_user_email":"ada@example.com","end_user_display_name":"Ada","team":"red"}', '{"id":"ada","email":"ada@example.com","display_name":"Ada","tags":{"plan":"gold"}}', 'ada', NULL, 'validadaada@example.com', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.475239+00', '2026-11-23 06:07:46.582169+00', NULL, '2026-11-23 06:07:46.558751+00', 'active', 'reconnected', '2026-11-23 06:07:46.558751+00', '2026-11-23 06:07:46.558751+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (3, 'f1aae30fbb744ad28be6034858ea0cb4', 'production', 'git', 'git', 'acme-hosted', 1, '\x01a2c88de281b6473ad5e88897955bdc8c3ea60e12b9ff241e28fe33c8aa021bcceb6c6d377e9e9d846765ab0d0bb71e81c2bc41d91f39e7459e6e2bacc35221df8b3ae6168cc38d9836400e3c316d13001e0898de39b8cb47f4792b8955184b3c2d3da4ff23694284cf9c9436f23fe81525d0c5006625a5722779db1eac6eb6eb808f7ad4a0522e68c7c5f5d4f705f4b1a302dffe8b554cf4e009c71312cb4d49830f56e4dc2602972542e7024febf8a426f06ba6379ca803fa57cca592114658eab8e50f20cb536161bee539058166fc4cb45cf8a234dd9c766bd1dea997cb2867ff8486b0754367dc79710e3581eb772e3f3a17', '2026-12-23 06:07:46.603+00', '{"host":"127.0.0.1"}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'git', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.604373+00', '2026-11-23 06:07:46.604373+00', NULL, '2026-11-23 06:07:46.604373+00', 'active', 'authorized', '2026-11-23 06:07:46.604373+00', '2026-11-23 06:07:46.604373+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (4, '52edb342796c41709110c2364a5ab405', 'production', 'mail', 'mail', 'acme-key', 1, '\x01a2c88de281b6473a8eb5f7b887c25ee4c75739bc155ff1bbf5038e05db3b56c8b0133cf0b0ff4ccaa0ce0da931e73f43a6af16cb1e051722e72d18a8282edb19600dc7cc039925ac903a4e4b7370578a78b8cd7a2566ba69eb469da20755321e243e3457eedcc5741510600789bf91bd0e74944b2c9f1b1f5c560deb9cde19f348', NULL, '{}', NULL, NULL, NULL, '{"end_user_id":"bob","team":"red"}', '{"id":"bob"}', 'bob', NULL, 'mail', 'https://127.0.0.1/hooks/override', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.635035+00', '2026-11-23 06:07:46.635035+00', NULL, '2026-11-23 06:07:46.635035+00', 'active', 'authorized', '2026-11-23 06:07:46.635035+00', '2026-11-23 06:07:46.635035+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (5, '5bbb3a2172384b7cbc04a176b521fe8e', 'production', 'ledger', 'ledger', 'acme-basic', 1, '\x01a2c88de281b6473a06079cdf87672eac14698c1588aa2935a1d98ee4841e9c2e794641062a0d6afc85b92de02bad9dbe6cc785baebe7eae95b093d16ffe81fbc7066ea44213a9cac79816b01ea9946be00b08e8b681e1ecbf2b81b24cf0c981efa1c8a', NULL, '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'ledger', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.678086+00', '2026-11-23 06:07:46.678086+00', NULL, '2026-11-23 06:07:46.678086+00', 'active', 'authorized', '2026-11-23 06:07:46.678086+00', '2026-11-23 06:07:46.678086+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (6, 'b2832b36ceca40338a90f32a47f3ee43', 'production', 'machine', 'machine', 'acme-machine', 1, '\x01a2c88de281b6473a5ee5420c41a113cd0fe8f95bcc15266595e3fde190919bc28ffa783e51c5221a0e2b26df1258295cace376de2caf8225c341bf99518c64d8228d9b23a94eeced88a5dc8d7ef8f10d13f7d388ccd0c23a018da16a98b7ec1c696619b1eb8370dfee5a3bd07669e5ab1da27c10c8f0b827c040fd745c0265feb6249a9d091eb5fddc71a3c511fcacc483d9eca59e8b6dae60f36a34aafeaf252e7923d60e0f83a7eeed9b65a2541958365d59c4b8f5794a5473ace54e47ffaa567b19930e05debaefefc1d40c523522736ae73c928152bdfdbddd99c331527c0d0df235c7127523084a9099d549b2b3fdd478e93a197d288945be56772da8577a45cbb095b01afb6f4fadd327e086', '2036-11-20 06:07:46.705+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'machine', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.707411+00', '2026-11-23 06:07:46.707411+00', NULL, '2026-11-23 06:07:46.707411+00', 'active', 'authorized', '2026-11-23 06:07:46.707411+00', '2026-11-23 06:07:46.707411+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (7, 'a97b4bd5c8a94b71b6ae56656dd6dfb7', 'production', 'signed', 'signed', 'acme-oauth1', 1, '\x01a2c88de281b6473a6137b23205798197ae05a44c127a6cf4b9f5d678776830f1c5b93e3e86f9025959ea6e17c89bfd0fb253e8e9496a5d18ac2594585b9f6e3dd1063468870994f4787bb656f1dcb4f79b55071546135e500d9822738116bbac14a4b3fdd38aafa1308a9d56e945f1e462cc2fb903d9f3d7c28009a1892ddc50fdd247bbfb0e7c6713ac7393b3c4f81e46b262b6dee280d11877a782c47c33fbafc3afb202afab328e6c05175be3eed3bdbe4b3e638a4a8f1b550a2ee697bec84696025ed3ca1529d4e3c2c47247b08554aca4afe73669617249a13cc5', NULL, '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'signed', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.729285+00', '2026-11-23 06:07:46.729285+00', NULL, '2026-11-23 06:07:46.729285+00', 'active', 'authorized', '2026-11-23 06:07:46.729285+00', '2026-11-23 06:07:46.729285+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (8, 'b1b7cbb5672c4d1c9a95ce8bb442a61f', 'production', 'steps', 'steps', 'acme-steps', 1, '\x01a2c88de281b6473aee073b9f3a967177ff07bc00da35622faf642fcf4d9bc6ad380e2bc62d6c02c162b96fd8c83a7843eeb0f42631139bf2b4b67926eeb80408ac1df379f7886663193470352f7024a417a2fa6f43c0076767203c628403e45419af1503359a52b639db777a19026161668bace58d10d3a2862d6888a25e2c1dc41239b66bf9ef466eb58efecf1044a05741cc2ad471e2b7e97b143c73346427e264ecb1fe2780f8c64a6938cf0c5c743d6c9f2638e4dbc47133630fa012ff400a70e155dc682f4d52d052c8f7798351f8a9488f39f5122068ae27f1b58d2298e10fa1d192d6efd78ec655c6aa06f422aacce3018d9998d0ac2d437156acf37426a061a2a772f223', '2036-11-20 06:07:46.749+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'steps', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.754322+00', '2026-11-23 06:07:46.754322+00', NULL, '2026-11-23 06:07:46.754322+00', 'active', 'authorized', '2026-11-23 06:07:46.754322+00', '2026-11-23 06:07:46.754322+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (9, '6d3e37bff6104b80ad9b3c7e7ef8748c', 'production', 'cloud', 'cloud', 'acme-cloud', 1, '\x01a2c88de281b6473a27fba88475b414f60dd16d32e23801910d997afd968988bbf6d7e8733f9c31eb4894014ad65a8bb67d230c49d131f0bfd736e198c87c7f53cb2a14523d2afeb9728a433ce3450d9068c158675fac9dc5b59ebb522c21a8d548e50a6257d62c83f7502e889fc8dff423aa643808d15df4c594664f6423f86b1e0b8c2eb32ab8c2a9cc1c63788a4626609e8277056e8c52f99a7b', NULL, '{"region":"eu-central-1"}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'cloud', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.776068+00', '2026-11-23 06:07:46.776068+00', NULL, '2026-11-23 06:07:46.776068+00', 'active', 'authorized', '2026-11-23 06:07:46.776068+00', '2026-11-23 06:07:46.776068+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (10, '73b080124cb84e2ba38d445555f54632', 'production', 'open', 'open', 'acme-open', 1, '\x01a2c88de281b6473a2e03b8095195b76cc0e0f5436a537c24456dd4b2bc8a9d46f172909ac6111ab944e956cf70bfb65abc7436', NULL, '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'open', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.789996+00', '2026-11-23 06:07:46.789996+00', NULL, '2026-11-23 06:07:46.789996+00', 'active', 'authorized', '2026-11-23 06:07:46.789996+00', '2026-11-23 06:07:46.789996+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (11, 'f32b8c1ea8e14fb9bfccc940b6916a97', 'production', 'crm-api', 'made', 'acme-oauth', 1, '\x01a2c88de281b6473a04ca07fad2ebf4ff8412f0e0254da0f281fb944328fbf493e0a3b4225f54329b31b350f452fe9de86c0fd405bcb77dbc1ed1c94e72448c21ae38621c5f7509f995c71b74494899136c1e04d7836d8e6195c6813a9c48faf69fdce58fb45cf7d6daebbc67bdaaa4c47ff7dd97c5156087d72d953e50a02b53ee33b5159b9baa28dc57f464f9364c0db13e7a8f67f8d9cb6863332e9bd04c41b85640b7b856f1ce0cf8f4ff7f6c4064171e688b6295b1159eb5353396b60ade4acae018e997d841e7d3e74742e08cbdc8ab9e1d694f7896c2c76917dabeb8dfdfe53ce5652000722ccfcde161b34e7ca15e49c33b993ada', '2026-12-23 06:07:46.82+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'made', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.822303+00', '2026-11-23 06:07:46.822303+00', NULL, '2026-11-23 06:07:46.822303+00', 'active', 'authorized', '2026-11-23 06:07:46.822303+00', '2026-11-23 06:07:46.822303+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (12, '01e4260f36594f54852d1cf8a8a5ee5a', 'production', 'crm', 'refreshed', 'acme-oauth', 2, '\x01a2c88de281b6473a9efa365c295b7f3a001ba8a26a1301d96665c3261511adc56bb13e3b4014263f74e071eec7109dd87e9201af1c38bce5a610be255c9ea3c1585e96d50b911cddc8d79fbb857689ad271b1ea868e9aed73854816f0569f6ddef99f79e583ab77515f204f821f5a4f08e58f578e5dc3931ed87e8c48a6d3dac7007d643ed8f8ca0d85e04c49309701acc4c1cd9527d4c91d7beae25b620a23f89fc9d9303fd35b55f9ce8adf3889d60de661f8f4d9a9b890612a8ad46d8a247332f019da137be484c147e567681bf23bc8eca4efcb95e700034fa241728ed1838bd58a4760e0ce3b2b5fd3eb5e2f6725b19a9368e5ba94ade2a89f5c4ad710c21f74ea5efb7141421ebe0e8378383f3f90a29bbb8528fbb65628d2a96cb849500ed2c38d3a50f0b8e29af80e8eaf94cbf8da783aca84499a3fece', '2036-11-20 06:07:46.902+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'refreshed', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:46.852223+00', '2026-11-23 06:07:46.918443+00', '2026-11-23 06:07:46.882485+00', '2026-11-23 06:07:46.918443+00', 'active', 'authorized', '2026-11-23 06:07:46.852223+00', '2026-11-23 06:07:46.852223+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, true);
INSERT INTO public.connections VALUES (13, '5b11632f90ea4adfbeca8e5395d28f43', 'production', 'crm', 'dead', 'acme-oauth', 1, '\x01a2c88de281b6473ae9d702a6cbc929c11b359a7d700f53faf45af1367a25ce3a3ffe4b905b588fdf89ce5ed0d9a5822d0c34b5d2dd39c650acb1b6fc0d299f91d88d550bfd4445f85ba63bc0233679c3318dc6b82369f7e808efad1932a3c653be32d51f87a887d29017220670a7973ab3a3781059a35ba88789f1a6272a0d34c56c211d3c16ef5dd6b7eb0442cc67d85d38f23ca3cdac2a571c2754b9f284f7483ed4b08f5551cc3f3495c1b22f16c1e11cefbd133f4089fbf33a89a3562f5376e6f31aecc514594d75c1220a2e4bec21ef9d59c064ea7eb9cf131f4fa9adb78771aec8e1e33d91cff048bc44039161554afddac3eb9a66199f46234b02773685c2', '2026-11-23 06:06:46.923+00', '{}', NULL, NULL, NULL, '{"end_user_id":"dee"}', '{"id":"dee"}', 'dee', NULL, 'dead', NULL, NULL, NULL, 'invalid_grant', 'It was revoked.', true, '2026-11-23 06:07:46.958431+00', 1, NULL, '2026-11-23 06:07:46.927063+00', '2026-11-23 06:07:46.958431+00', '2026-11-23 06:07:46.943935+00', '2026-11-23 06:07:46.927063+00', 'needs_reauth', 'invalid_grant', '2026-11-23 06:07:46.958431+00', '2026-11-23 06:07:46.927063+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (14, '4359338e452f4de685107126792ccaa4', 'production', 'crm', 'slow', 'acme-oauth', 1, '\x01a2c88de281b6473aaaf0856d5c5958ad2701ea39d43c941eeb12a460d9424ef021c7e2c6af40ea26ee8d9c9e29a466d2b06d7f957e10d83b10c7e2a584a7f474cdb0e03bcff2265f0fd5ab54c494c8acec18108505849dfdfd1933eb8ffc42a5200db389c3bb7858a04c25234012360509eaeeb594aa11777bc483af20201df73460c43cbb969fd45492e729db4469f247c65cbfef7930998ba3c5f808fee91ef0cdc4990aefa00670118b119fdb0579715445d8036aed3c2a97355ad32c80bb0b93e471ed3775433553a72a0ca70173e0529fc2416127cb101839d4d2948553d09774ce97a8b3948595225a226e39cc7c74e2a3010d713b', '2026-12-23 06:07:47.004+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'slow', NULL, NULL, NULL, 'token_endpoint_unavailable', 'the token endpoint answered 503', false, '2026-11-23 06:07:47.049983+00', 1, '2026-11-23 06:22:47.049983+00', '2026-11-23 06:07:47.015164+00', '2026-11-23 06:07:47.049983+00', '2026-11-23 06:07:47.026766+00', '2026-11-23 06:07:47.015164+00', 'degraded', 'token_endpoint_unavailable', '2026-11-23 06:07:47.049983+00', '2026-11-23 06:07:47.015164+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (16, 'c04cb3815d0b4442a54ca1fa99d36cf6', 'staging', 'crm', 'staging-1', 'acme-oauth', 1, '\x0167a13f6504d2610f3cdb5e81ce7c7d9a23e94880adca4af76093694e8ab2c0e21607ab67055a4cdd06f180dc4fde5ce4d9943440fa807e53a67361e418eac057aecb323ccbc008198269756043aaab27d90cc04bc0b3a9df47af76376a53f3d6004ba669cbecaac8ec35c84dbc1fbe1e42ecab739ec7906076d296f5bff15308c4d9dcedb619eae6d61afeeb251b613fe20dc1b42fe6eecced76f436d7e70be7a31a8bd71381a203e88880bdbdd749849fb244fc6a9f14068c5e9b54181aa85c0f14fe170b5dcce96587f0623f566c862add571169347cd743d0fceeba4c8379810d929050dac0306e92a50c28bac1f2d5209a6f93caaa6b5101bd730a802f0530f747697e5b8e61', '2026-12-23 06:07:54.889+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'staging-1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:54.891107+00', '2026-11-23 06:07:54.891107+00', NULL, '2026-11-23 06:07:54.891107+00', 'active', 'authorized', '2026-11-23 06:07:54.891107+00', '2026-11-23 06:07:54.891107+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (17, 'a5d59799d5854d2895016a11603c3a8d', 'production', 'crm', 'expired', 'acme-oauth', 1, '\x01a2c88de281b6473a723d5716769de662e2f28d2381ceee7ba385f3b597396bd97ed7e3383c8272ddac4d10b3f8fb69fcb7a8ccc8da22c34f5966e2029a18ee9e85fb400f86d33d9ede04c1761a6fa5962219842880608a656664a2e2e87ffd03f9fd5ba8aa12504a8b57f8a3c71502a936b616cab1c8a34ee4e11b98ef51b2ea2a783370108c7362876c85daddb9c31954cd4a84edfe1a0ffe47862d919bd5f2745002a8fcc42005e206c0800407e1c926d3f64c7e2849bf4d30c04ef99f39ed881f2e2084e9fa076b4ab2548f54d6c309c09b51539eb3b6b3f1ab7db6c66db25036f6c0067026b7a75ef0c71622283e0da5a61e535ed76e7a6f78082c56c95d93f866074d80a13ef138cb2297d8', '2026-11-23 06:06:54.904+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'expired', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:07:54.906069+00', '2026-11-23 06:07:54.906069+00', NULL, '2026-11-23 06:07:54.906069+00', 'active', 'authorized', '2026-11-23 06:07:54.906069+00', '2026-11-23 06:07:54.906069+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);


--
-- Data for Name: data_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.data_keys VALUES (1, 'a2c88de281b6473a', 'production', '5edd1836948fb8c4', '\x823fc8d5a1561652edad531a2c371b59a16f0dbb171c95350762ed3fb0e525c8807a3da0899b92869802d07a0692ade043cf1441b9b6234b0576dcee', 65536, '2026-11-23 06:07:46.25048+00');
INSERT INTO public.data_keys VALUES (2, '67a13f6504d2610f', 'staging', '5edd1836948fb8c4', '\x7148f691b3ce7fd30e7896d547a3fc9d67693af3faf27f9591285795e72ebfc303d2b572c809407dffd6b82c19f7d5399120e83438ebfad31a830a4c', 65536, '2026-11-23 06:07:46.255629+00');


--
-- Data for Name: deliveries; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deliveries VALUES (2, 1, 'msg_6946148a70784867a6455a027ab99a91', '2026-11-23 06:07:46.475239+00', 'production', 'crm', 'valid', 'crmvalid', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.475239+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.646632+00');
INSERT INTO public.deliveries VALUES (1, 1, 'msg_6946148a70784867a6455a027ab99a91', '2026-11-23 06:07:46.475239+00', 'production', 'crm', 'valid', 'crmvalid', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.475239+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.651614+00');
INSERT INTO public.deliveries VALUES (12, 7, 'msg_0b48fd0441fa410997dc27997d1d855f', '2026-11-23 06:07:46.729285+00', 'production', 'signed', 'signed', 'signedsigned', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.729285+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.770957+00');
INSERT INTO public.deliveries VALUES (4, 2, 'msg_25286d0f06c64c769d14ff1df02cc125', '2026-11-23 06:07:46.558751+00', 'production', 'crm', 'valid', 'crmvalid', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.558751+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.68786+00');
INSERT INTO public.deliveries VALUES (6, 3, 'msg_1825434584904f758c1179b4a6e0bea9', '2026-11-23 06:07:46.604373+00', 'production', 'git', 'git', 'gitgit', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.604373+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.687995+00');
INSERT INTO public.deliveries VALUES (3, 2, 'msg_25286d0f06c64c769d14ff1df02cc125', '2026-11-23 06:07:46.558751+00', 'production', 'crm', 'valid', 'crmvalid', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.558751+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.697089+00');
INSERT INTO public.deliveries VALUES (5, 3, 'msg_1825434584904f758c1179b4a6e0bea9', '2026-11-23 06:07:46.604373+00', 'production', 'git', 'git', 'gitgit', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.604373+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.698965+00');
INSERT INTO public.deliveries VALUES (7, 4, 'msg_0ff558bec9c040ffbb35ca56d02a8bf3', '2026-11-23 06:07:46.635035+00', 'production', 'mail', 'mail', 'mailmail', 'https://127.0.0.1/hooks/override', 'delivered', 1, NULL, '2026-11-24 06:07:46.635035+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.713542+00');
INSERT INTO public.deliveries VALUES (20, 11, 'msg_0b42a74cb6334a8aaa4af07eea4d1313', '2026-11-23 06:07:46.822303+00', 'production', 'crm-api', 'made', 'crm-apimade', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.822303+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.870315+00');
INSERT INTO public.deliveries VALUES (15, 8, 'msg_dc2eb78ce5044fd5916751d12e238e91', '2026-11-23 06:07:46.754322+00', 'production', 'steps', 'steps', 'stepssteps', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.754322+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.790934+00');
INSERT INTO public.deliveries VALUES (27, 14, 'msg_c64c9f3ef1374361a9e6e1c3cd7da5a6', '2026-11-23 06:07:46.958431+00', 'production', 'crm', 'dead', 'crmdead', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.958431+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.005127+00');
INSERT INTO public.deliveries VALUES (9, 5, 'msg_6c9eae9c3f454d9eb5dbacfc03fc84f8', '2026-11-23 06:07:46.678086+00', 'production', 'ledger', 'ledger', 'ledgerledger', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.678086+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.725483+00');
INSERT INTO public.deliveries VALUES (8, 5, 'msg_6c9eae9c3f454d9eb5dbacfc03fc84f8', '2026-11-23 06:07:46.678086+00', 'production', 'ledger', 'ledger', 'ledgerledger', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.678086+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.733629+00');
INSERT INTO public.deliveries VALUES (10, 6, 'msg_d80ccd9cc07f4ffb980080af31b74860', '2026-11-23 06:07:46.707411+00', 'production', 'machine', 'machine', 'machinemachine', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.707411+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.73375+00');
INSERT INTO public.deliveries VALUES (11, 6, 'msg_d80ccd9cc07f4ffb980080af31b74860', '2026-11-23 06:07:46.707411+00', 'production', 'machine', 'machine', 'machinemachine', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.707411+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.747264+00');
INSERT INTO public.deliveries VALUES (23, 12, 'msg_bcbb8f1ea7324eb5a460216e930e053f', '2026-11-23 06:07:46.852223+00', 'production', 'crm', 'refreshed', 'crmrefreshed', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.852223+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.917224+00');
INSERT INTO public.deliveries VALUES (13, 7, 'msg_0b48fd0441fa410997dc27997d1d855f', '2026-11-23 06:07:46.729285+00', 'production', 'signed', 'signed', 'signedsigned', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.729285+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.76243+00');
INSERT INTO public.deliveries VALUES (14, 8, 'msg_dc2eb78ce5044fd5916751d12e238e91', '2026-11-23 06:07:46.754322+00', 'production', 'steps', 'steps', 'stepssteps', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.754322+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.798105+00');
INSERT INTO public.deliveries VALUES (16, 9, 'msg_62a1bcfc77a34cb7a5eb8e480658af23', '2026-11-23 06:07:46.776068+00', 'production', 'cloud', 'cloud', 'cloudcloud', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.776068+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.798207+00');
INSERT INTO public.deliveries VALUES (17, 9, 'msg_62a1bcfc77a34cb7a5eb8e480658af23', '2026-11-23 06:07:46.776068+00', 'production', 'cloud', 'cloud', 'cloudcloud', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.776068+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.80302+00');
INSERT INTO public.deliveries VALUES (22, 12, 'msg_bcbb8f1ea7324eb5a460216e930e053f', '2026-11-23 06:07:46.852223+00', 'production', 'crm', 'refreshed', 'crmrefreshed', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.852223+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.919021+00');
INSERT INTO public.deliveries VALUES (19, 10, 'msg_c8bf908df48441ea8070e71a6f948e6e', '2026-11-23 06:07:46.789996+00', 'production', 'open', 'open', 'openopen', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.789996+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.81909+00');
INSERT INTO public.deliveries VALUES (18, 10, 'msg_c8bf908df48441ea8070e71a6f948e6e', '2026-11-23 06:07:46.789996+00', 'production', 'open', 'open', 'openopen', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.789996+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.820866+00');
INSERT INTO public.deliveries VALUES (21, 11, 'msg_0b42a74cb6334a8aaa4af07eea4d1313', '2026-11-23 06:07:46.822303+00', 'production', 'crm-api', 'made', 'crm-apimade', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.822303+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.856223+00');
INSERT INTO public.deliveries VALUES (30, 16, 'msg_6e698266612d4e388b48c06aee5d3185', '2026-11-23 06:07:47.049983+00', 'production', 'crm', 'slow', 'crmslow', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:47.049983+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.103924+00');
INSERT INTO public.deliveries VALUES (25, 13, 'msg_21353ecbabc9420bb3432ef861de1557', '2026-11-23 06:07:46.927063+00', 'production', 'crm', 'dead', 'crmdead', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:46.927063+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.977715+00');
INSERT INTO public.deliveries VALUES (24, 13, 'msg_21353ecbabc9420bb3432ef861de1557', '2026-11-23 06:07:46.927063+00', 'production', 'crm', 'dead', 'crmdead', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.927063+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:46.989727+00');
INSERT INTO public.deliveries VALUES (26, 14, 'msg_c64c9f3ef1374361a9e6e1c3cd7da5a6', '2026-11-23 06:07:46.958431+00', 'production', 'crm', 'dead', 'crmdead', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:46.958431+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.027826+00');
INSERT INTO public.deliveries VALUES (34, 18, 'msg_a1f53b0fe0134cf7ad150f6a4d9f38cb', '2026-11-23 06:07:47.100774+00', 'production', 'crm', 'deleted', 'crmdeleted', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:47.100774+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.144101+00');
INSERT INTO public.deliveries VALUES (29, 15, 'msg_e3a669d264f94f45a23e93a4613f247f', '2026-11-23 06:07:47.015164+00', 'production', 'crm', 'slow', 'crmslow', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:47.015164+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.038188+00');
INSERT INTO public.deliveries VALUES (28, 15, 'msg_e3a669d264f94f45a23e93a4613f247f', '2026-11-23 06:07:47.015164+00', 'production', 'crm', 'slow', 'crmslow', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:47.015164+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.044347+00');
INSERT INTO public.deliveries VALUES (31, 16, 'msg_6e698266612d4e388b48c06aee5d3185', '2026-11-23 06:07:47.049983+00', 'production', 'crm', 'slow', 'crmslow', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:47.049983+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.090004+00');
INSERT INTO public.deliveries VALUES (32, 17, 'msg_3c0106a58631472aad6aacda04a7fad7', '2026-11-23 06:07:47.068143+00', 'production', 'crm', 'deleted', 'crmdeleted', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:47.068143+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.10687+00');
INSERT INTO public.deliveries VALUES (33, 17, 'msg_3c0106a58631472aad6aacda04a7fad7', '2026-11-23 06:07:47.068143+00', 'production', 'crm', 'deleted', 'crmdeleted', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:47.068143+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.12027+00');
INSERT INTO public.deliveries VALUES (35, 18, 'msg_a1f53b0fe0134cf7ad150f6a4d9f38cb', '2026-11-23 06:07:47.100774+00', 'production', 'crm', 'deleted', 'crmdeleted', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:47.100774+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:47.152132+00');
INSERT INTO public.deliveries VALUES (36, 19, 'msg_a2a5826dea7745dbab1a3ac6404643cc', '2026-11-23 06:07:53.492236+00', 'production', 'crm', NULL, NULL, 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:53.492236+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:53.561263+00');
INSERT INTO public.deliveries VALUES (37, 19, 'msg_a2a5826dea7745dbab1a3ac6404643cc', '2026-11-23 06:07:53.492236+00', 'production', 'crm', NULL, NULL, 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:53.492236+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:53.542083+00');
INSERT INTO public.deliveries VALUES (38, 20, 'msg_074c3f5f9e5949d8b8e60dd3b250053f', '2026-11-23 06:07:54.891107+00', 'staging', 'crm', 'staging-1', 'crmstaging-1', 'primary', 'pending', 1, '2026-11-23 06:17:54.934714+00', '2026-11-24 06:07:54.891107+00', NULL, NULL, 503, 'the receiver answered 503', NULL);
INSERT INTO public.deliveries VALUES (40, 21, 'msg_582b1557d8034c70a0a45a93bdb7b4e9', '2026-11-23 06:07:54.906069+00', 'production', 'crm', 'expired', 'crmexpired', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:07:54.906069+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:54.923753+00');
INSERT INTO public.deliveries VALUES (39, 21, 'msg_582b1557d8034c70a0a45a93bdb7b4e9', '2026-11-23 06:07:54.906069+00', 'production', 'crm', 'expired', 'crmexpired', 'primary', 'delivered', 1, NULL, '2026-11-24 06:07:54.906069+00', NULL, NULL, 200, NULL, '2026-11-23 06:07:54.929306+00');


--
-- Data for Name: environments; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.environments VALUES ('production', '2026-11-23 06:07:46.246877+00');
INSERT INTO public.environments VALUES ('staging', '2026-11-23 06:07:46.254523+00');


--
-- Data for Name: flow_results; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.flow_results VALUES (1, 'staging', 'a8d3ffbeff4eff978ea35d532356819cc1c6a6976f8b75e38cf8b5773096a21e', NULL, 'crm', 'daf11753-3f4d-433e-be61-9243f2d820ab', true, NULL, NULL, NULL, '2026-11-23 06:07:53.402563+00', 'a02384c5f6af5b89fe3dd710c128f9f2ae54635cdf5e332c11973978ea28ef8b', '9dffc715035cfee003ba1929e504eafa041d0e0913dc641e57ffe29349383358');
INSERT INTO public.flow_results VALUES (2, 'staging', '1f647491cc69e598e010997692e7f8b16f90b9d08db050aa9f2ecb43771b167d', NULL, 'mail', 'eac82397-0494-4d3f-aa46-01baed8f4b2a', true, NULL, NULL, NULL, '2026-11-23 06:07:53.481086+00', NULL, NULL);


--
-- Data for Name: flows; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.flows VALUES ('deab6f1c4a402e6160e252f6ed66e48c8e8087ba2f87b4481ff4b8a0d6011b3c', '66511524b0f5b4a8a072750e05d9d5cb542875777f55be913460791f705cf65f', 'production', 'crm', '11f2ef14-b0a3-4560-9007-cf30c20cff71', '12fa0f87549fda5789d3927addd584fc618e9512de656a46c19cf0c22569bd28', '2026-11-23 06:17:53.363258+00', '\x01a2c88de281b6473a620a4fbdf4011826635b6c8a1612f22b4db74a9a557ff91d3e62f0d5bc17650dc914b30c964afbcecf44caf9a2209e1c6bbaae54c3f92594fcea68aaed40735c92e6cb7db46b18009e7b5d8f8687a1db7d50660e24f7ee4e4dfc20bc6abb06d5cb46b1521e2dcc7fc5e50e48d20f20773d3e5c181e4feec599d3e530ea2572a471fdf9c2cc2dbea882088d0f9fe1faa6a4c5e61c688da19c81b9d33de6980e6a31de71209a0a642fe015cf03db123b62deab002ed6184985be25173bbd60b04dfd2683809404cedb3a3ac301b7e09f0d1f7d76f93321b2cb8e4c0027f6c51898ceb66f3070efc8445678538009d3d8b44034eccb0d0c95d089e2004531d05d9f34f32c3e58aee6f6fc26b2d24baccf44b68130cd2ce8385e128274f0ac1f2c4f01470201188d6b0361494d5425eba1150847d8db59aedd6c6974d1aa9d2e7fd019ea7633c71ecae3744c420dd7a8e7cfee120150a7667158815ef2a3f6d5d86c732b1b54c4f46219c883ba9ad797b21bba99cecfcee27ac46fcd6eee6b86bcbcb7467e4c272a0e27d06e24f77187ba66e68182233ec36b6cd581044d0f974e1ea949985d27a699313ce152844be82af705dd924afe4decf964bdae2e07ae9e1592424380212f08ff8d46d5b314eb9ded3ae876ec2ecc1ccc9a1378180ca68c769ee8e8620c880c45d1c363c7b9f50cd62ad06e25be9bdca36970397ba33c3bbf076caa4c97717bec8162c99d15bb1b38723963ea8e226273f8caaed8895037128f570d7fd43ead3c8d6f4eefb6406b0de76854be5f09f6ce27b15a8504d029a65044d83490a22f90a288d25276dede3f3815383af33a4bd5981fbe7ddedc9b561bc79fed71a104b8263e1bf466437d65794524720af1bf619af5bbefcbd83cc8b8bb638ce1306ddf3f4072d7726533e349b86898fe109fe74823cbabfaddd7c0cafc830cbad13b5a78a0e2eb5c0057a6e39b57b4632da3b92129413e5a92e5d87872291d8555fef5a459572e011b4d0631f21eb627dcf800e38564732f20aa530b1239b5477b7ef4f77ff8f450ca6986df68edc8ff0992bc4fd858a80b692b104ce44c940ccf477c3bbf6bc000c54e7b96725ec529b26f1937f59cd4e4d6d7e2711042c27fdd46a5946298a42ad3db4dd588fba3aced165485b832f78bd5149579191dd8d37239a5bca7e0581480e4b1354e557aa1656b486f5994a68e0725b59a56321d7d8ef9dd4f43157a2efea9804a5503885f032554db591c784c1f2cd959d1370b858dbcf9a5b4fce49990d24d0b4bd88e55f76b2b4692d05bdb29eaf38870a424151a7f2b167afce4a2fe718710404890749cf3da32058f0d3ee17a2a733fd4f39203efa7906ca18e345f727ebc030a6b8a599ae1729c1468ba23e2fb14c54f50c4923698743d95b3f88729dac6ff56de459246dc11ed');
INSERT INTO public.flows VALUES ('3589ef1db11a24cb786d125a19d480166e18ddd1b90a458031909c109a2bf3fe', '956a033ffc1e61df058af741f0e9212fbe9c2cf8902eb57c5984c31731f5688d', 'production', 'crm', '05103da1-52f3-49b9-8abb-d9601f53673d', 'dfab24711a9905945d0b0cfa35953e0a1f2ad649c4deb074835b09bb4397f4fb', '2026-11-23 06:17:53.370225+00', '\x01a2c88de281b6473ad85b39bae954b0d76f48390fe4540b9acd5325a9ec42d1707171a1d2d3d4596c890c9b9bd36cdb1b076530eaf8828329ae23f7da35ff3bb57ac4ce9c1e10a72f29678fde0d342d966364be61b8562cec94b524484ef3b40a584dec66cac5f5e24004509fee73fc014e88098732d56ab55eec2570abb8f1842bb0f36cfc5e3a2f2cbc0b6e4d0d0fc23a039ed9a4ed7e52f549542d821572f1496c8d81f38ea3d1e8b2a03bcf697cfd0d4d0b6a9759de43bbf274e25da72b6f14ba8fd10d23d7be65c1456d4b168b57e3777360762471d62c25af94bc3ca0e6d12e4c718accabcf7f032fb3d6df4c5c7fc9277ead55c9f606a88ce4aeef2d13a9b39c8cb380f6964093a5ed81879379d55a56c4e41d80ead1ad3f119c5e711e11aa76953fa5f8451f11387c92828b7f121f63f06ccbcdffe8d218408c99e7f5540587393bd3768b49e9cdc2fc01a4906538a36ab475a095e25b16f5a28af9a33cd469d0205ce843e8ab42b3e7688116307509963ce9c0777b83d399a3ae8b49ba5bcf8219aa4f1483cdc7676d4fbb64d700bfb7845dc472a0c2f22e6d0b0be158bcf853de69817289bf1f2b8a1e9454011a432351632f2db2f377b60bff6295301ea06214d21eb4a045c4c721f83808636c2621d73bc0c371b626e32445cff04326ad86b3142f7cf8ba3b2f2dc318149e55834a83092ad70acb64aa83ff35e42f6b94a3d1cc30f1a154ba42b966fec5f50022c593d13553c2d3e1d71835f80c88524cdb90a3e017063c2fd24deb877fe6dfd7f42b16c01ccd4d7d088bfbb0268a3c965eab7cd339cb1201a1895939a22481eee7daad4b41687e71bc8299c7a11870622f7b7f0ca4d1c5667444bda47acb797545c8f8ade7d41563d0e38dc3316e3bc81e6003c2ce921e42b56fe989c8182873925434f424f72b7a1406afb4f382f1851e01588042b843230140cc4ff84f7adb13c76bd283cf89dd0dbe7bd0814a731862b50d73f5aa14e1fc1d9bd458d8e656c4b1e72e009f28e3ae7dc923c9e601ac6415bc2b62d6ab4a43296934b6f473de5fb4c9b4aa74f6f41a10f18b5cd176109cfd9685a3c49bd49b9daa2a0ecf24067c19ade56975bccebd0632383223af5cb198ff01677aebb8d41d27bdd84480ea00a28430713dd69c5d5919ab78d1959d84f4611e899dc9a5ccc5e66307362478eb8ceebc923e1a33f95832a54ae3214f7599618fef0ae3fdf372846cea8c5735ca27d59c59b2bcbab34a288acd72ed43477ae7ab68a5751a3569cab1ce983bd14fe138d827ecde787eab05aa23bcdd9ee2a0730f12bf72067ecdabb44cc8dd58900a349948fdf065557c85c17eeefda9c7cbecf7b3ed43d34d5def5944fd89cb967d259b11b9fe698ab35d361b01c59a73d4e812553306f112d942bb30968ea74a8a60372e195478552b82465fe0f0');


--
-- Data for Name: integrations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.integrations VALUES ('d642f1aeb4724e97bd3faf921505ce68', 'production', 'crm-api', 'acme-oauth', 2, 'CRM by API', false, '["contacts.read","offline_access"]', '\x01a2c88de281b6473a9251cb0a17590c7d42746cae270eccd14f7ff9d788f0d594f2d1245757b1ff739babe4c44ad80530f815e236efc8863c3a2cc6df58b55329792203cc419342ba240a375f3a32ac054190af18eaf563a909f17a3889914af54102f8e2eaae8d7a6359f165aed8a56342b115443c34df0af7ba7c66ec2dc32c921888affe3b211b7f86399f8a829911e7da05a94fd6b49bcb6f39d494c244980af372173bcb5654467aaac31758199d94bdbb6ed5b0c724fb99320a7e648b5962f77c36f7529797c9d42a45b6d3c0', '2026-11-23 06:07:46.810092+00', '2026-11-23 06:07:46.836183+00', NULL);


--
-- Data for Name: keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.keys VALUES (2, 'ca0d895abf615fab12bff0ac6978a5535f0183914296baa5ebb4272ca70f4863', 'production', 'key', 'ended', '7hVR', '["environment:*"]', '[]', NULL, NULL, 0, '2026-11-23 06:07:49.745584+00', 'gateway keys create', NULL, NULL, '2026-11-23 06:07:51.307284+00', NULL);
INSERT INTO public.keys VALUES (3, '8a81b8427002cfb2d6260963032a36f8c243302401f509cf1e3e14575ab3faf9', 'production', 'capability', 'address', 'vmIG', '["environment:proxy"]', '[{"connections":["crm/valid"]}]', NULL, NULL, 0, '2026-11-23 06:07:52.793136+00', 'gateway keys create', NULL, NULL, NULL, NULL);
INSERT INTO public.keys VALUES (6, '40ab21f28d363d118ab1741a2aafb4fdca3a5b6026af483d6b8fe23c8aec3851', 'staging', 'key', 'all of staging', 'AIIA', '["environment:*"]', '[]', NULL, NULL, 0, '2026-11-23 06:07:53.269792+00', 'a key of gateway.yaml', NULL, NULL, NULL, NULL);
INSERT INTO public.keys VALUES (4, '0f3ff9feb004e4976dfa97e0c9a2753956251f66cde4beea59faaac1fe6ecf5d', 'production', 'key', 'parent', 'lO0M', '["environment:api_keys:*","environment:proxy","environment:connections:list"]', '[{"tags":{"team":"red"}}]', NULL, NULL, 0, '2026-11-23 06:07:53.242045+00', 'a key of gateway.yaml', NULL, NULL, NULL, '2026-11-23 06:07:55.082425+00');
INSERT INTO public.keys VALUES (5, '5e95bf9a895f3b0b0c269903ad0b007b8555e501abf8acc0c3c37db9de796c8e', 'production', 'key', 'child', '352K', '["environment:proxy","environment:connections:list"]', '[{"integrations":["crm"]},{"tags":{"team":"red"}}]', NULL, NULL, 0, '2026-11-23 06:07:53.257901+00', 'key 4 (parent)', 4, NULL, NULL, '2026-11-23 06:07:55.082425+00');
INSERT INTO public.keys VALUES (1, 'eff7177155355bd79d19731dded50c5cdaa808de2ecfda697b874591dc8fa3d4', 'production', 'key', 'agent', '0jfs', '["environment:proxy","environment:connect_sessions:write"]', '[{"connections":["crm/valid"],"rules":["GET /api/things/*"],"hosts":["127.0.0.1"]}]', 600, 500, 1, '2026-11-23 06:07:48.32755+00', 'gateway keys create', NULL, '2035-02-09 06:07:48.327531+00', NULL, '2026-11-23 06:07:55.082425+00');


--
-- Data for Name: outbox; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.outbox VALUES (1, 'b3fe1287a35f4d57b4a29225c56b16ea', '2026-11-23 06:07:46.475239+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true,"tags":{"plan":"gold","end_user_id":"ada","end_user_email":"ada@example.com","end_user_display_name":"Ada","team":"red"},"end_user":{"id":"ada","email":"ada@example.com","display_name":"Ada","tags":{"plan":"gold"}}}', NULL);
INSERT INTO public.outbox VALUES (2, 'ee656827376f468faf1a7ed5cdb61556', '2026-11-23 06:07:46.558751+00', 'production', 'crm', 'acme-oauth', 'connection.reconnected', '{"operation":"override","success":true,"tags":{"plan":"gold","end_user_id":"ada","end_user_email":"ada@example.com","end_user_display_name":"Ada","team":"red"},"end_user":{"id":"ada","email":"ada@example.com","display_name":"Ada","tags":{"plan":"gold"}}}', NULL);
INSERT INTO public.outbox VALUES (3, 'c3b2fbc8f2c64193b2f2d34075ff9c03', '2026-11-23 06:07:46.604373+00', 'production', 'git', 'acme-hosted', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (4, '901f56024ec34f9f9c4257ae066cecec', '2026-11-23 06:07:46.635035+00', 'production', 'mail', 'acme-key', 'connection.created', '{"operation":"creation","success":true,"tags":{"end_user_id":"bob","team":"red"},"end_user":{"id":"bob"}}', NULL);
INSERT INTO public.outbox VALUES (5, '21e2f152aa4a4d1f9895a39d682d353b', '2026-11-23 06:07:46.678086+00', 'production', 'ledger', 'acme-basic', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (6, 'e67bad3f41f9493796bdfa98ecce0df0', '2026-11-23 06:07:46.707411+00', 'production', 'machine', 'acme-machine', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (7, 'd76e41ec58374dfa9c2ae3cffd13f75b', '2026-11-23 06:07:46.729285+00', 'production', 'signed', 'acme-oauth1', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (8, '81e9846df40d4ae69cb3ac15f16b8bac', '2026-11-23 06:07:46.754322+00', 'production', 'steps', 'acme-steps', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (9, 'd22e0b1ddbf042daa44ad215e43be135', '2026-11-23 06:07:46.776068+00', 'production', 'cloud', 'acme-cloud', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (10, 'bfde2f2bb9dd4517848868a21c89dc8e', '2026-11-23 06:07:46.789996+00', 'production', 'open', 'acme-open', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (11, '014171f76c9648b6b36ead01a3e9278a', '2026-11-23 06:07:46.822303+00', 'production', 'crm-api', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (12, 'dbcf1193601a4eef9acdc4e1cddce7d0', '2026-11-23 06:07:46.852223+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (13, '62d8e42874b04bc9b86236261066e478', '2026-11-23 06:07:46.927063+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true,"tags":{"end_user_id":"dee"},"end_user":{"id":"dee"}}', NULL);
INSERT INTO public.outbox VALUES (14, 'a6ea04fc39b64c5d91011a50a542ed39', '2026-11-23 06:07:46.958431+00', 'production', 'crm', 'acme-oauth', 'connection.needs_reauth', '{"operation":"refresh","success":false,"tags":{"end_user_id":"dee"},"end_user":{"id":"dee"},"error":{"type":"invalid_grant","description":"It was revoked."}}', NULL);
INSERT INTO public.outbox VALUES (15, '41e6cda683744fe3bfa8b7db633f158b', '2026-11-23 06:07:47.015164+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (16, 'b2aa05330ea243b0bbf7c2323e6446ce', '2026-11-23 06:07:47.049983+00', 'production', 'crm', 'acme-oauth', 'connection.degraded', '{"operation":"refresh","success":false,"error":{"type":"token_endpoint_unavailable","description":"the token endpoint answered 503"}}', NULL);
INSERT INTO public.outbox VALUES (17, '0ea20fcdca1b4add8d602892ec737a69', '2026-11-23 06:07:47.068143+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (18, 'e4309b3993e54ae5a9cc8c78a0a2f1c4', '2026-11-23 06:07:47.100774+00', 'production', 'crm', 'acme-oauth', 'connection.deleted', '{"operation":"deletion","success":true}', NULL);
INSERT INTO public.outbox VALUES (19, 'e35cd8722de34a2798abef2257d82cb2', '2026-11-23 06:07:53.492236+00', 'production', 'crm', 'acme-oauth', 'forward', '{}', '\x01a2c88de281b6473add89e1d55989b80fc8a310db0a9259d14aa4e4b74921af9c48d880e0aa275748aff88d2ba00f5c2a5f50897a44175080aece789dc23fbba479d30289c2641b5f92862200232786c3fb9e235e83eb3522f952a0747079270b0b106b163f4051d48a876be0a3e85104a083c132eded9d61831e2d1e49f36acf9c981700889f6becef8c3df942ecd6056f693a3721b0950646cb193a0cda10187e43919b1e06c86eb69e47c7497f642fbe1faac7086c47435da0bc7f787267751bb01f76e47eb9432f35ea7c4b323b06fc5cdc692bf8b3592ae68b43bd2032e2efeb2b010d93d6679438c854d5a5320567f46e37bc967806');
INSERT INTO public.outbox VALUES (20, '1e3d7fbdcac545e79805a82b3e124e51', '2026-11-23 06:07:54.891107+00', 'staging', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (21, 'b4b5c70768b84d949d2bc77ef7225981', '2026-11-23 06:07:54.906069+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);


--
-- Data for Name: pending_connections; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.pending_connections VALUES ('df495eb75a3841318fc863097887e153', 'staging', 'a8d3ffbeff4eff978ea35d532356819cc1c6a6976f8b75e38cf8b5773096a21e', 'crm', 'daf11753-3f4d-433e-be61-9243f2d820ab', 'Sz6nUx1dye1gpg1K3jsTgCxLHsPwUK18RMg0342ZEGQ', 0, '2026-11-23 06:17:53.397395+00', '\x0167a13f6504d2610f4cac37efc1fc7b62bd4aeb2c2486058c10a0438a84ecd265b2bf592e83f3455f8cac994df215293dde4ee615fc336fcc90492848d3b617d34fac44df4f0d2dfa4da6fc40125e1b39c5ee1a06b7aa500e1f8093236c467da5502b1067fff96f4529673d59cfc50717ef666d28ffb7dd34cb3e9e29c4303364f3950de6f584321670ba9568bde1fbd59176406f1926cfd8f67ed6cc42c4b3fbf420941e123d82fc9adcfc0635027a61e97366b233dba42f7c20a30fbfe3cf413e4f89550c88241cab60a673b945b662faae6d7b0d11ae2956be8d2a9da382a015da6e48dcab3eff2f55224623f3b8a27f041452728d8ee3d306191b69dd0e3e69571a55a6f2602c9d03addd07cae065450d375a9f5ef602fd841fd9a2b87f40497ae44eb2b1c48ad32f60a32ea8cf49babf0de393834cb2a48959b5e04f59a1849c26611ebbe22674e4fbede937b0ff1d80c0f4fcd18732abcf501876300e65656b9004ceab0ce44ff50e4932a69259650d7ae0cc25e9327c4637a2625e0651b1f975137a0dc7091315f68ed00c5f91663ae38cc17d6de0fb78b652286ef641afed7351d760b53fa2b828db42d2bfec615fc93a2709be1784b0484ed726a4b60090632fca1cf726485749212a15e470ddfa1ddad787e2cccb9c787d583de66ba6d6f71fca60d72f7b0d6272b03d5b110545e18221bf96e4c0912b40df8af96f546b3aa681d1777e100e7d8beb4c596f9f7076ee692ad4083f012592d4831e5f83782cb1965c23db3d94750c493aef8152f544603301fdd59fef0e4796a160f173dd72180d474f0b55b25019f571fb86d6351cc644ac1b7373f519bc5804937f848561d86f75e3f3d3773b9de8f01643594912dbf4a9d8f5add2b0d400409bce4ed21d76356995cf8c7741a5c081ba1b4ef4b5e4d9226e33f974d239686316c93d1db6e6024c5fa6a7408377e062df4d5a4f8b7b4e82b481b37f46fa43a1f56fb4ead8bcc5707a3505f665414e0b3ed6bfff6dca498b458bf1687fcf8d17a1952b');
INSERT INTO public.pending_connections VALUES ('a4aa6ad3d0354b48a25a2f8bc1b6ee52', 'staging', '1f647491cc69e598e010997692e7f8b16f90b9d08db050aa9f2ecb43771b167d', 'mail', 'eac82397-0494-4d3f-aa46-01baed8f4b2a', 'Sz6nUx1dye1gpg1K3jsTgCxLHsPwUK18RMg0342ZEGQ', 0, '2026-11-23 06:17:53.476698+00', '\x0167a13f6504d2610faac19cf8361db941746f2326132be08ae76eec71560c1db442509a750ca8c27ec841408b88459a10296a55b142473ecc59261aed4081a670b396390f51a9cf320ad179231097ff62ad79a1e3d7b61633c8b5730f8050bd6675db0a9d624d3170b9141cd8bdeddc3d8f1974a0f8ae95e62f27081a65b65fa314386ef61979b30d8a6263dab6771058ef9ffbe21e49c04549432a4c591119dff3c196b5159c7e3797df4306d2e66eb5bd28034272a7d6e33c20892e94a9c5fbd0160206aca795445e6a2255130386de47ac448a9e2ffe00e76fb982ffd1d8b599502b45801b7b7e0bee02cf3824b9be64c22bbb7aa3193ca15bd0ca937c0acbc18532a3e120ad06424fed04adaee94d89ada3bb542a3ddccad8448196ad617cd4ba9bdf02632a5114627c75675d8fa57fa242a10d26e4c8ded30c33e99a8bcb922b295c2dd822816df6420e04c5c0ae8190028db44d762dbb5926605bc77301df5887ef89a47276ffb1f199a5c19538f9375fd2a643951f30cc71a25870857772759785db08b8aeb82b43e93bb1cfece1b86e05424bb514281ed4fd58aa20c7555a0dd0ff3c64dd67f493e20f7232bc14c808dca32b223685140ecdfda643b8d2dd291bc3d718ce360dae6e6f1dba0f9aac9fca5e56970d1aea6e1064b86d07f593d821e5b8e2d762');


--
-- Data for Name: request_log; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.request_log VALUES (1, '2026-11-23 06:07:47.136566+00', 'a6bc6f08c43d7f624260e99e', 'production', 'crm', 'valid', 'GET', '127.0.0.1', '/things/1', 200, 4.041, 0, 533, NULL);
INSERT INTO public.request_log VALUES (2, '2026-11-23 06:07:47.139265+00', '86b6322a368edb7f0e89a17b', 'production', 'mail', 'mail', 'GET', '127.0.0.1', '/things/1', 200, 2.445, 0, 534, NULL);
INSERT INTO public.request_log VALUES (3, '2026-11-23 06:07:47.153797+00', 'd7af6837f2ad80f88d73cda8', 'production', 'crm', 'nobody', 'GET', '', '/proxy/things/1', 404, 10.405, 0, 827, 'unknown_connection');
INSERT INTO public.request_log VALUES (4, '2026-11-23 06:07:53.283446+00', '3335c7cd520958ea440c3160', 'production', 'crm', 'valid', 'GET', '127.0.0.1', '/things/1', 200, 8.627, 0, 613, NULL);
INSERT INTO public.request_log VALUES (5, '2026-11-23 06:07:53.2904+00', 'b4b05042266a4bd2dda7c486', 'production', 'crm', 'valid', 'GET', '127.0.0.1', '/things/1', 200, 5.923, 0, 530, NULL);


--
-- Data for Name: signing_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.signing_keys VALUES ('603b9581d74e417096cbc04411d7bcfe', 'production', 1, '\x01a2c88de281b6473a89c8dcd645863c48f232cd0051de5905a4e0732eb86d29e54cd725794c1b5734d61aa534b1d05d14649950e590690910d96d2ee3b4c54b2f199d4b8e031af79d75ac424d2276076bb1f2e0a0699135ac6ec9ae8ad8d17baa', '2026-11-23 06:07:46.605518+00', '2026-11-24 06:07:54.898588+00');
INSERT INTO public.signing_keys VALUES ('2881a9cb0f154a54b250571e1758cdcc', 'production', 2, '\x01a2c88de281b6473a258290699a14c1cf6dd0d8a68e6e1b1b4c389c6395c4b714cd726ad5737b860d578c2ec99445e90224a79e48038b614126c0d1a3f5f1d03ab5d6aab7a53efb13f1dbeeed81fe6b11d4c59dd4eb657647b8215c7be6df0204', '2026-11-23 06:07:54.898588+00', NULL);


--
-- Data for Name: task_leases; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: timelines; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.timelines VALUES ('00000001', '2026-11-23 06:07:46.274389+00');


--
-- Data for Name: webhooks_seen; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.webhooks_seen VALUES ('production/crm/d7731313d1f78b005047fbf93b7e3bf8ea3d4314e112e81196add6e1d70472fb', '2026-11-23 06:07:53.492236+00');


--
-- Name: changes_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.changes_id_seq', 31, true);


--
-- Name: connection_history_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.connection_history_id_seq', 19, true);


--
-- Name: connections_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.connections_id_seq', 17, true);


--
-- Name: data_keys_number_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.data_keys_number_seq', 2, true);


--
-- Name: deliveries_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.deliveries_id_seq', 40, true);


--
-- Name: flow_results_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.flow_results_id_seq', 2, true);


--
-- Name: keys_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.keys_id_seq', 6, true);


--
-- Name: outbox_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.outbox_id_seq', 21, true);


--
-- Name: request_log_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.request_log_id_seq', 5, true);


--
-- Name: alembic_version alembic_version_pkc; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);


--
-- Name: changes changes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (id);


--
-- Name: connect_sessions connect_sessions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connect_sessions
    ADD CONSTRAINT connect_sessions_pkey PRIMARY KEY (digest);


--
-- Name: connection_history connection_history_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connection_history
    ADD CONSTRAINT connection_history_pkey PRIMARY KEY (id);


--
-- Name: connection_tags connection_tags_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connection_tags
    ADD CONSTRAINT connection_tags_pkey PRIMARY KEY (connection, key);


--
-- Name: connections connections_by_ref; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connections
    ADD CONSTRAINT connections_by_ref UNIQUE (environment, integration_id, connection_id);


--
-- Name: connections connections_by_uid; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connections
    ADD CONSTRAINT connections_by_uid UNIQUE (uid);


--
-- Name: connections connections_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connections
    ADD CONSTRAINT connections_pkey PRIMARY KEY (id);


--
-- Name: data_keys data_keys_by_id; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.data_keys
    ADD CONSTRAINT data_keys_by_id UNIQUE (id);


--
-- Name: data_keys data_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.data_keys
    ADD CONSTRAINT data_keys_pkey PRIMARY KEY (number);


--
-- Name: deliveries deliveries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (id);


--
-- Name: environments environments_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.environments
    ADD CONSTRAINT environments_pkey PRIMARY KEY (name);


--
-- Name: flow_results flow_results_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.flow_results
    ADD CONSTRAINT flow_results_pkey PRIMARY KEY (id);


--
-- Name: flows flows_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.flows
    ADD CONSTRAINT flows_pkey PRIMARY KEY (state_digest);


--
-- Name: integrations integrations_by_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.integrations
    ADD CONSTRAINT integrations_by_key UNIQUE (environment, integration_id);


--
-- Name: integrations integrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.integrations
    ADD CONSTRAINT integrations_pkey PRIMARY KEY (uid);


--
-- Name: keys keys_by_digest; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_by_digest UNIQUE (digest);


--
-- Name: keys keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);


--
-- Name: outbox outbox_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);


--
-- Name: pending_connections pending_connections_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pending_connections
    ADD CONSTRAINT pending_connections_pkey PRIMARY KEY (uid);


--
-- Name: request_log request_log_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.request_log
    ADD CONSTRAINT request_log_pkey PRIMARY KEY (id);


--
-- Name: signing_keys signing_keys_by_number; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.signing_keys
    ADD CONSTRAINT signing_keys_by_number UNIQUE (environment, number);


--
-- Name: signing_keys signing_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.signing_keys
    ADD CONSTRAINT signing_keys_pkey PRIMARY KEY (uid);


--
-- Name: task_leases task_leases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.task_leases
    ADD CONSTRAINT task_leases_pkey PRIMARY KEY (name);


--
-- Name: timelines timelines_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.timelines
    ADD CONSTRAINT timelines_pkey PRIMARY KEY (timeline);


--
-- Name: webhooks_seen webhooks_seen_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhooks_seen
    ADD CONSTRAINT webhooks_seen_pkey PRIMARY KEY (digest);


--
-- Name: connect_sessions_by_connection; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connect_sessions_by_connection ON public.connect_sessions USING btree (environment, connection_id);


--
-- Name: connect_sessions_by_expiry; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connect_sessions_by_expiry ON public.connect_sessions USING btree (expires_at);


--
-- Name: connect_sessions_by_key; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connect_sessions_by_key ON public.connect_sessions USING btree (environment, key_id, expires_at);


--
-- Name: connection_history_by_connection; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connection_history_by_connection ON public.connection_history USING btree (connection, id);


--
-- Name: connection_tags_by_value; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connection_tags_by_value ON public.connection_tags USING btree (key, value, connection);


--
-- Name: connections_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_age ON public.connections USING btree (environment, created_at, id);


--
-- Name: connections_by_connection_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_connection_id ON public.connections USING btree (environment, connection_id, created_at, id);


--
-- Name: connections_by_end; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_end ON public.connections USING btree (environment, dies_at, id) WHERE (dies_at IS NOT NULL);


--
-- Name: connections_by_end_user; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_end_user ON public.connections USING btree (environment, end_user_id, created_at, id);


--
-- Name: connections_by_keep_alive; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_keep_alive ON public.connections USING btree (provider, keep_alive_at, id);


--
-- Name: connections_by_lease; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_lease ON public.connections USING btree (lease_until) WHERE (lease_until IS NOT NULL);


--
-- Name: connections_by_organization; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_organization ON public.connections USING btree (environment, organization_id, created_at, id);


--
-- Name: connections_by_previous; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_previous ON public.connections USING btree (previous_refresh_until) WHERE (previous_refresh_until IS NOT NULL);


--
-- Name: connections_by_site; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_site ON public.connections USING btree (environment, integration_id, site_origin) WHERE (site_origin IS NOT NULL);


--
-- Name: connections_by_token_end; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX connections_by_token_end ON public.connections USING btree (expires_at, id) WHERE ((end_settled IS NULL) AND (expires_at IS NOT NULL));


--
-- Name: data_keys_by_environment; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX data_keys_by_environment ON public.data_keys USING btree (environment, number);


--
-- Name: deliveries_by_connection; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_by_connection ON public.deliveries USING btree (environment, connection_id, id);


--
-- Name: deliveries_by_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_by_due ON public.deliveries USING btree (environment, target, due_at, id) WHERE (due_at IS NOT NULL);


--
-- Name: deliveries_by_end; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_by_end ON public.deliveries USING btree (state, ended_at) WHERE (ended_at IS NOT NULL);


--
-- Name: deliveries_by_integration; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_by_integration ON public.deliveries USING btree (environment, integration_id, outbox) WHERE (due_at IS NOT NULL);


--
-- Name: deliveries_by_message; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_by_message ON public.deliveries USING btree (message_id);


--
-- Name: deliveries_by_outbox; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_by_outbox ON public.deliveries USING btree (outbox);


--
-- Name: deliveries_by_sequence; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deliveries_by_sequence ON public.deliveries USING btree (environment, target, sequence, id) WHERE (due_at IS NOT NULL);


--
-- Name: flow_results_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX flow_results_by_age ON public.flow_results USING btree (at);


--
-- Name: flow_results_by_flow; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX flow_results_by_flow ON public.flow_results USING btree (flow_digest);


--
-- Name: flow_results_by_session; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX flow_results_by_session ON public.flow_results USING btree (session_digest, id);


--
-- Name: flows_by_expiry; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX flows_by_expiry ON public.flows USING btree (expires_at);


--
-- Name: keys_by_environment; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX keys_by_environment ON public.keys USING btree (environment, id);


--
-- Name: keys_by_parent; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX keys_by_parent ON public.keys USING btree (parent_id);


--
-- Name: pending_connections_by_expiry; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX pending_connections_by_expiry ON public.pending_connections USING btree (expires_at);


--
-- Name: pending_connections_by_session; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX pending_connections_by_session ON public.pending_connections USING btree (session_digest);


--
-- Name: request_log_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX request_log_by_age ON public.request_log USING btree (at);


--
-- Name: webhooks_seen_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhooks_seen_by_age ON public.webhooks_seen USING btree (at);


--
-- Name: connect_sessions connect_sessions_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connect_sessions
    ADD CONSTRAINT connect_sessions_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: connection_history connection_history_connection_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connection_history
    ADD CONSTRAINT connection_history_connection_fkey FOREIGN KEY (connection) REFERENCES public.connections(id) ON DELETE CASCADE;


--
-- Name: connection_tags connection_tags_connection_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connection_tags
    ADD CONSTRAINT connection_tags_connection_fkey FOREIGN KEY (connection) REFERENCES public.connections(id) ON DELETE CASCADE;


--
-- Name: connections connections_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.connections
    ADD CONSTRAINT connections_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: data_keys data_keys_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.data_keys
    ADD CONSTRAINT data_keys_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: deliveries deliveries_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: deliveries deliveries_outbox_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_outbox_fkey FOREIGN KEY (outbox) REFERENCES public.outbox(id) ON DELETE CASCADE;


--
-- Name: flow_results flow_results_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.flow_results
    ADD CONSTRAINT flow_results_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: flows flows_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.flows
    ADD CONSTRAINT flows_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: integrations integrations_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.integrations
    ADD CONSTRAINT integrations_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: keys keys_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: outbox outbox_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: pending_connections pending_connections_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pending_connections
    ADD CONSTRAINT pending_connections_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- Name: signing_keys signing_keys_environment_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.signing_keys
    ADD CONSTRAINT signing_keys_environment_fkey FOREIGN KEY (environment) REFERENCES public.environments(name);


--
-- PostgreSQL database dump complete
--


