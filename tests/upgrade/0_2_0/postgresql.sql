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

INSERT INTO public.changes VALUES (1, '2026-11-23 06:02:57.693521+00', 'production', 'crm', 'valid');
INSERT INTO public.changes VALUES (2, '2026-11-23 06:02:57.743621+00', 'production', 'crm', 'valid');
INSERT INTO public.changes VALUES (3, '2026-11-23 06:02:57.757618+00', 'production', 'crm', 'valid');
INSERT INTO public.changes VALUES (4, '2026-11-23 06:02:57.770151+00', 'production', 'git', 'git');
INSERT INTO public.changes VALUES (5, '2026-11-23 06:02:57.798185+00', 'production', 'mail', 'mail');
INSERT INTO public.changes VALUES (6, '2026-11-23 06:02:57.840935+00', 'production', 'ledger', 'ledger');
INSERT INTO public.changes VALUES (7, '2026-11-23 06:02:57.862478+00', 'production', 'machine', 'machine');
INSERT INTO public.changes VALUES (8, '2026-11-23 06:02:57.88056+00', 'production', 'signed', 'signed');
INSERT INTO public.changes VALUES (9, '2026-11-23 06:02:57.901587+00', 'production', 'steps', 'steps');
INSERT INTO public.changes VALUES (10, '2026-11-23 06:02:57.921084+00', 'production', 'cloud', 'cloud');
INSERT INTO public.changes VALUES (11, '2026-11-23 06:02:57.938179+00', 'production', 'open', 'open');
INSERT INTO public.changes VALUES (12, '2026-11-23 06:02:57.958006+00', 'production', 'crm-api', '');
INSERT INTO public.changes VALUES (13, '2026-11-23 06:02:57.975553+00', 'production', 'crm-api', 'made');
INSERT INTO public.changes VALUES (14, '2026-11-23 06:02:57.987567+00', 'production', 'crm-api', '');
INSERT INTO public.changes VALUES (15, '2026-11-23 06:02:57.995524+00', 'production', 'crm', 'refreshed');
INSERT INTO public.changes VALUES (16, '2026-11-23 06:02:58.044253+00', 'production', 'crm', 'refreshed');
INSERT INTO public.changes VALUES (17, '2026-11-23 06:02:58.050225+00', 'production', 'crm', 'dead');
INSERT INTO public.changes VALUES (18, '2026-11-23 06:02:58.078709+00', 'production', 'crm', 'dead');
INSERT INTO public.changes VALUES (19, '2026-11-23 06:02:58.092209+00', 'production', 'crm', 'slow');
INSERT INTO public.changes VALUES (20, '2026-11-23 06:02:58.131552+00', 'production', 'crm', 'slow');
INSERT INTO public.changes VALUES (21, '2026-11-23 06:02:58.139907+00', 'production', 'crm', 'deleted');
INSERT INTO public.changes VALUES (22, '2026-11-23 06:02:58.153797+00', 'production', 'crm', 'deleted');
INSERT INTO public.changes VALUES (23, '2026-11-23 06:02:59.073402+00', 'production', '', '45390caf06acc594c8105114381c10e411626131920e50436e2714073ba4b546');
INSERT INTO public.changes VALUES (24, '2026-11-23 06:03:00.234592+00', 'production', '', '1046b4cc6ab94f86e9c2308ed9403560b231ea05d1a30063960423fefdc467f1');
INSERT INTO public.changes VALUES (25, '2026-11-23 06:03:01.441228+00', 'production', '', '1046b4cc6ab94f86e9c2308ed9403560b231ea05d1a30063960423fefdc467f1');
INSERT INTO public.changes VALUES (26, '2026-11-23 06:03:03.469227+00', 'production', '', '3b598787ae489af54b1a2d18efd7134639335ffe12504cb16c8e4d1c2c291c47');
INSERT INTO public.changes VALUES (27, '2026-11-23 06:03:03.846159+00', 'production', '', '2a888d45a4eefdcc685a7d64d52451c460c3a8098ae0429e9c5c7ce297624225');
INSERT INTO public.changes VALUES (28, '2026-11-23 06:03:03.859094+00', 'production', '', '4067e660af462a91cae28d7e43a80391b93dae8cf0a6dc8b39d4844146dc81c0');
INSERT INTO public.changes VALUES (29, '2026-11-23 06:03:03.867233+00', 'staging', '', '216dea498390a9e7f5cb81744169f194b575374aa199d8617a9a4be6a0f41fc1');
INSERT INTO public.changes VALUES (30, '2026-11-23 06:03:05.492998+00', 'staging', 'crm', 'staging-1');
INSERT INTO public.changes VALUES (31, '2026-11-23 06:03:05.534314+00', 'production', 'crm', 'expired');


--
-- Data for Name: connect_sessions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.connect_sessions VALUES ('88654460ba36f1639371002579d5f3621eb08b551f5986f4981edd058b42c959', 'production', '2026-11-23 06:32:58.085734+00', NULL, '{}', '["crm"]', '\x018975a7081f2e1c248171ef7e8673e6117d8f31fcc7d700e014c4daba765e4314d397281ce2055211389cf3', '{}', NULL, 'dead', 'crm', '', false, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('9f5313baaaab8a185ea6d910e093b81e28f79e21b251a55d1989a48da52ba087', 'production', '2026-11-23 06:32:58.18711+00', NULL, '{}', '["crm"]', '\x018975a7081f2e1c2447b6246d870cb110a9bbe13fbc84b98fa7e10a6932ca5998f1243804dd4f', '{}', NULL, 'nobody', NULL, '', false, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('c75f6ace1c990dce9a1efcbc9815b83b9916eb192c960f189a72704d04f8fc6e', 'production', '2026-11-30 06:03:03.892698+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve"}', '["crm","mail"]', '\x018975a7081f2e1c2450212801b7b9084ecdf50c268326bf0f855258543f34f3b8554771910a01', '{}', NULL, NULL, NULL, '', false, 5, 0, NULL, NULL, 'https://app.example.com/back?tab=2', 'state of the application');
INSERT INTO public.connect_sessions VALUES ('303fe6afbe258ee6e35a5f76360b7cffa1bd5492a034b2cae42ae6e7b95730bb', 'production', '2026-11-30 06:03:03.900226+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve","organization_id":"acme","organization_display_name":"Acme"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve","organization_id":"acme","organization_display_name":"Acme","team":"blue"}', '[]', '\x018975a7081f2e1c248a81bbd0130de5673b2b88dbec42942e3993bfc8dc97fde6a36c1090426214f701986d358b58475efcf57048a0455e2b4539b7cc2116b0078324b26f6fd3ca6e39bff8d519236fa57a', '{}', 'https://127.0.0.1/hooks/override', NULL, NULL, '', false, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('93c2439a125a9f3e7e43ed1422f7125611dc045d8d51061ad60ecd586d61e25e', 'production', '2026-11-30 06:03:03.91852+00', '{"id":"ada","email":"ada@example.com","display_name":"Ada","tags":{"plan":"gold"}}', '{"plan":"gold","end_user_id":"ada","end_user_email":"ada@example.com","end_user_display_name":"Ada","team":"red"}', '["crm"]', '\x018975a7081f2e1c248b7cbbc36e41444ba1b7b70bcfcfce84b062b911dff63e733fcd02008d6a', '{}', NULL, 'valid', 'crm', '', false, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('62d2a6359fdd8ed5b32ded4ac48016471f5c3faa3570e48a3c7ae762bba4999f', 'production', '2026-11-30 06:03:03.903453+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve"}', '["crm"]', '\x018975a7081f2e1c24e2802a783070f4fed08ddbe7befbbd209cb0ce93ca6d0b3212f637e6b9a0', '{}', NULL, NULL, NULL, '', true, 1, 0, '5486c50e06d68aa89c8110f11a84d388712d1f0ca580d936fc10fadeb5f0711e', NULL, NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('94f19d38623b9a44eea0e9582b7576d1f592d7cbdf2c043430e969e619cd44e8', 'staging', '2026-11-30 06:03:03.907322+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve"}', '[]', '\x0162a2d0e89a7a4a26bf07f3cf70c53d10f9a23800e54b2f2d1ae2c28681f0879412a5f2d495b5', '{}', NULL, NULL, NULL, '', false, NULL, 1, '75520c710e052ff0dd083b0c536a1ed2868cd4c6856d1437e5b6c312028f1881', 'Sz6nUx1dye1gpg1K3jsTgCxLHsPwUK18RMg0342ZEGQ', NULL, NULL);
INSERT INTO public.connect_sessions VALUES ('248b13c7a555ebcee28a90365e6dab155ed48a63f02816fdd5e2c7c576f14629', 'staging', '2026-11-30 06:03:03.913915+00', '{"id":"eve","email":"eve@example.com","display_name":"Eve"}', '{"end_user_id":"eve","end_user_email":"eve@example.com","end_user_display_name":"Eve"}', '["mail"]', '\x0162a2d0e89a7a4a2693ae21897e43808bbd7a28935689b2864102fa3d5875c39f29f56078e809', '{}', NULL, NULL, NULL, '', false, NULL, 1, NULL, 'Sz6nUx1dye1gpg1K3jsTgCxLHsPwUK18RMg0342ZEGQ', NULL, NULL);


--
-- Data for Name: connection_history; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.connection_history VALUES (1, 1, '2026-11-23 06:02:57.693521+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (2, 1, '2026-11-23 06:02:57.743621+00', 'active', 'active', 'reconnected', NULL);
INSERT INTO public.connection_history VALUES (3, 3, '2026-11-23 06:02:57.770151+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (4, 4, '2026-11-23 06:02:57.798185+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (5, 5, '2026-11-23 06:02:57.840935+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (6, 6, '2026-11-23 06:02:57.862478+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (7, 7, '2026-11-23 06:02:57.88056+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (8, 8, '2026-11-23 06:02:57.901587+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (9, 9, '2026-11-23 06:02:57.921084+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (10, 10, '2026-11-23 06:02:57.938179+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (11, 11, '2026-11-23 06:02:57.975553+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (12, 12, '2026-11-23 06:02:57.995524+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (13, 13, '2026-11-23 06:02:58.050225+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (14, 13, '2026-11-23 06:02:58.078709+00', 'needs_reauth', 'active', 'invalid_grant', 'It was revoked.');
INSERT INTO public.connection_history VALUES (15, 14, '2026-11-23 06:02:58.092209+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (16, 14, '2026-11-23 06:02:58.131552+00', 'degraded', 'active', 'token_endpoint_unavailable', 'the token endpoint answered 503');
INSERT INTO public.connection_history VALUES (18, 16, '2026-11-23 06:03:05.492998+00', 'active', NULL, 'authorized', NULL);
INSERT INTO public.connection_history VALUES (19, 17, '2026-11-23 06:03:05.534314+00', 'active', NULL, 'authorized', NULL);


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

INSERT INTO public.connections VALUES (1, '3261260fcaf64edd889948aba4659277', 'production', 'crm', 'valid', 'acme-oauth', 2, '\x018975a7081f2e1c249078ab57080e05c9a5bbadcd4eecbfce62adc9de8f5871b6451a30198c5ed175339e0dcf2c77ffcddc1b33a8fedf1089fd1342ff7244a8b667dcc5d476b5a577f22b9def7231e7ca39a5733b8b9a22630bac51ad61f92bcf4ed6447ebc2cb2884441bc564a9e0a7596d0aa3f32fc84d839d439a7f631efe27ca58fac7ea90258b1d604b812811a6192d5a50407a831cf4ac627593aa111b0df0260d591ba8cbbdd42b90f006f9c89ff1a759b8b2df7fa42b0dad531c7e9595ed17fcd5bff8b96f3ced771ce5c31149497e120f44429c19fda70af37143d2c58f451f1c443399b86e0d033287122365b0ded662e7c899f4fc7b53d', '2026-12-23 06:02:57.743+00', '{"region":"eu"}', NULL, NULL, '{"first":1,"list":[1,2.5,"\u00fc"],"null":null}', '{"plan":"gold","end_user_id":"ada","end_user_email":"ada@example.com","end_user_display_name":"Ada","team":"red"}', '{"id":"ada","email":"ada@example.com","display_name":"Ada","tags":{"plan":"gold"}}', 'ada', NULL, 'validadaada@example.com', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.693521+00', '2026-11-23 06:02:57.757618+00', NULL, '2026-11-23 06:02:57.743621+00', 'active', 'reconnected', '2026-11-23 06:02:57.743621+00', '2026-11-23 06:02:57.743621+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (3, '7e99ea2105d44962a875854065d5567b', 'production', 'git', 'git', 'acme-hosted', 1, '\x018975a7081f2e1c2476b6478e29d01f560b1f0b30f7926d75634f85d7647ed5ffff54280ac37ad2bfe31acfbd550fdd4499cac2de2ed3e6de93698f6735cb428d6483c8c5e8ccaeb3714c07cb47cc8e2a099ff00639023704841bb3e4fb709aeaedb1e56a75b9d036047bbfefa56e51a6bbf6caa1c305d3554544ae7bfa92fba683c28099dcb1ca41aabae2c2c82a9cba618c4988ab098adb89af159cfcbb9e7dedb608df387ad2e3e5e6bbcc715ef31867dd73f0f10d2e63ad78ce9205854dae6c7de6160a38f3582c43eb96d01fd80ee2ca306f89dba31f00be8c28d9e5001820f334bf58466df43229d5b548545f1335d077f0', '2026-12-23 06:02:57.769+00', '{"host":"127.0.0.1"}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'git', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.770151+00', '2026-11-23 06:02:57.770151+00', NULL, '2026-11-23 06:02:57.770151+00', 'active', 'authorized', '2026-11-23 06:02:57.770151+00', '2026-11-23 06:02:57.770151+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (4, '5b583fcd535f4da89d551371eb5864b6', 'production', 'mail', 'mail', 'acme-key', 1, '\x018975a7081f2e1c24b83ad6a933f7a57d7c00d7f25c666517fe5d0e1c9f657e108d80ab2168ca7cfc309391379fe630e93d00dfd3171aee5c44f438ffdc6c9d72f72c315bc05b6c67fea91a832bdcbeff7a47f44e2982da291d595cd1878009575ba6b3dc45ff21afb34f5a9c4b87e50716c24ac8fb39d8fd9c2bd5c5d00df8c824', NULL, '{}', NULL, NULL, NULL, '{"end_user_id":"bob","team":"red"}', '{"id":"bob"}', 'bob', NULL, 'mail', 'https://127.0.0.1/hooks/override', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.798185+00', '2026-11-23 06:02:57.798185+00', NULL, '2026-11-23 06:02:57.798185+00', 'active', 'authorized', '2026-11-23 06:02:57.798185+00', '2026-11-23 06:02:57.798185+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (5, 'efac6c9b48124718a9c158b6ea73110e', 'production', 'ledger', 'ledger', 'acme-basic', 1, '\x018975a7081f2e1c246ee11cc1372376fe91906ed274e7173ce8dde5cf196418eaf1a50151890dd3bfb73f4d769f0a14ee712adb88e1124516498bdac76ea97c0ba698596d9300e39b29842d9a3403ec7aef08ac67b9a7a7b69e2ad47d8d64decc059cbd', NULL, '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'ledger', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.840935+00', '2026-11-23 06:02:57.840935+00', NULL, '2026-11-23 06:02:57.840935+00', 'active', 'authorized', '2026-11-23 06:02:57.840935+00', '2026-11-23 06:02:57.840935+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (6, '0532b3ac295c42a2899da17e453ab3d1', 'production', 'machine', 'machine', 'acme-machine', 1, '\x018975a7081f2e1c247d7e35b7049f1be9449e06bfa21346c01297fdfcc67c18a1b312beebb41c2ff99bd709fc1780d4d9c87948a0d5b5e1df2e0e352c8f64aaf75c56598d9743f852740e640500ab8cfe37e2b8ebb68eea5d8a04fec6f90f9b604837940f9f439473d47b6e4dd5dd761dff685a0610ee55ebdef278dc393674218790b05b2df03e7622ee43974b80fe5f286ca912d6beeff566f61ee3137788b8aaa43df4559a6beb410666352527eb3050089f3aef4fc381b323b4c590836b893dbc527101a168a430704dc536c1a168452debd23df221a71c11acf0b4d657bfb90f7a049486a8fe5abd3fbe81f95725323bc007badfe76fdec73dd5366a2d575b22becb9e6b8cc09ba03beb21', '2026-12-23 06:02:57.86+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'machine', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.862478+00', '2026-11-23 06:02:57.862478+00', NULL, '2026-11-23 06:02:57.862478+00', 'active', 'authorized', '2026-11-23 06:02:57.862478+00', '2026-11-23 06:02:57.862478+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (7, 'b82cf15fffd4491681c344356eb1189c', 'production', 'signed', 'signed', 'acme-oauth1', 1, '\x018975a7081f2e1c24dcdfd5b40e6b9704ec3e8e1dd9aecfa9e56d80962e6372de2b52be2b692794b3f78807fee103fdb171aaf33f452e5bb973aeecc1f53b1e52fab3d770a4147abdd2b557f4618055f937526a696810cf796b195557802693da07f0dcd04d48473c1517615da457761fdc731e0ca06a7aec21ee5ad45732df0ec614879810eecac4f617d99d8cff154084c3c9279faa6cf36bbdcf32fa9d09ce49aa498c0bf5f2ee1dfa60b5533547fb9884e082258dde57ec61dd8ff1456fdaaa31be196ce57b5c5eef79b02aaa4a278c9599e7bd478770d9d5a38966', NULL, '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'signed', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.88056+00', '2026-11-23 06:02:57.88056+00', NULL, '2026-11-23 06:02:57.88056+00', 'active', 'authorized', '2026-11-23 06:02:57.88056+00', '2026-11-23 06:02:57.88056+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (8, '9197ad708575451eae75d6b097fae096', 'production', 'steps', 'steps', 'acme-steps', 1, '\x018975a7081f2e1c2483ae2889b9c842842a6a95514caeea242084eeeffc5672a4ce6b38f0dfab7956c84d5b77fa5233885eb6675b4dbddd0bef6111b910e1dfdd73a96eb0ae3db4c587fcce9e72b77173fa24f8c805649e349837ad32c0fc29a8f7387345bc0e954ad5d563a414ff097589d0656759cb85e3247e76190900026880671a2b351a53cd2b7f72a102d137aa7b8bae031f9cb585744af1391c51ce869a2247f1fe08ffe5a9e4d57c465569029755fc3a0f8490fab1a4073b9bb6e70145f46b892ea247680065040039d218061f7996ffe5f6fb52998e13646c60825e80ccefeedc5771295daf84c5b4b3e05e77ece2ba5970c1d8c2647360bd0a242fab7368fe23e7', '2026-12-23 06:02:57.899+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'steps', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.901587+00', '2026-11-23 06:02:57.901587+00', NULL, '2026-11-23 06:02:57.901587+00', 'active', 'authorized', '2026-11-23 06:02:57.901587+00', '2026-11-23 06:02:57.901587+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (9, 'b0a4900cbb6d4ba2813956a32a7fe017', 'production', 'cloud', 'cloud', 'acme-cloud', 1, '\x018975a7081f2e1c24d92e9e17bed14767f72032de43da8abf1d9ff249bb43593bb4452e018a7f8254515c723d1d4cc327c07ce33623585d24f7821aab625ea21e7ede5ef04d8a662f45b273b43e86922384e3f59d1f3bad5ef3fc60742ad9ce45542afbfeec32b38d9bed2709ca6d56eab9f6d2140252d146d018b2865d410d7d45d9ec9336f3dbcd68e6d67f6cb13272aa8f71d82e2c26b0af93e7', NULL, '{"region":"eu-central-1"}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'cloud', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.921084+00', '2026-11-23 06:02:57.921084+00', NULL, '2026-11-23 06:02:57.921084+00', 'active', 'authorized', '2026-11-23 06:02:57.921084+00', '2026-11-23 06:02:57.921084+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (10, '992d268351274d42a58f6f94247ab1f2', 'production', 'open', 'open', 'acme-open', 1, '\x018975a7081f2e1c248cc5412dcf51b40cd7631da605984dba417c9bf8b3738e09a7418ac8923ca2b6257b35b031ebec5c82ce6f', NULL, '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'open', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.938179+00', '2026-11-23 06:02:57.938179+00', NULL, '2026-11-23 06:02:57.938179+00', 'active', 'authorized', '2026-11-23 06:02:57.938179+00', '2026-11-23 06:02:57.938179+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.connections VALUES (11, '1f43196e0ce8422e839979df3a28d72c', 'production', 'crm-api', 'made', 'acme-oauth', 1, '\x018975a7081f2e1c24111311f311e00902cd06499bfd5d4355efe8a3f3b90510c7585d9b18eeef426595a9a5c15feb270b76227c8470ca39a841d5f304526fbc82346a7757c39cfc75b4ce651baec68bdbbba08eaa50401a8bf8b33241f29b072b45f5b069d08d9be459cdcd7a998ef2e7e0dc5299761bde26bc7ce4e51105a0bcb6f7e18f3a6c24b57250f16c0b1d8d929ded6dd8ee07464cbb4a090bdfd9dc0dc40c2c4d94e95a6cfecf7d5b47917b30783955f8c5b6e964ad60c662c80722ccfeeaa2c8b3d88601b23e4f85201263cb1137f4627e2e40d7fc00ba6f01d0c81e6f2296c2ecc8b01b1114261e063485b50376a95f5a01b4bd', '2026-12-23 06:02:57.972+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'made', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.975553+00', '2026-11-23 06:02:57.975553+00', NULL, '2026-11-23 06:02:57.975553+00', 'active', 'authorized', '2026-11-23 06:02:57.975553+00', '2026-11-23 06:02:57.975553+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (12, 'e2ded4e6b17b4ba3afa21a833f904733', 'production', 'crm', 'refreshed', 'acme-oauth', 2, '\x018975a7081f2e1c244cd09cd8bf3bbaaae1ed534ce5a2c756e622a62f2a99640ea2ec346f90dc06133511f6b3fb5eb88cd43a6d21e0d63d55bfd668abc771da08b923c1c9e765a01cab809b65e374e6ca248bba5c8a6690e11d97c53d47298423becd58014305fbb4447190506616dd7e28315f614369efc09a9b227b6d24ba7332868cebef749d50c99054da30b260bf4e057dabaa65761dc1be53c64be888378847f93cbeeaeef7df0671b197fa987d58ae851e85361b4ed353dc7bc39a62fcb2c436044ad3b6424805e9448d01e0c9ff052a987cd1f9dc1e26eaac8421f7b6c1c50043961487e046f21e2c8233d25fd367069b146daf5fd46655b63749f6ae812f8b51f405f2fae1c2674620d8bfccbce0e06982b27a26c6584a50ce049a4377610f5ede58a4b69e083ea1e9932d9a8b7fb8c1fcdbe898cb', '2026-12-23 06:02:58.034+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'refreshed', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:02:57.995524+00', '2026-11-23 06:02:58.044253+00', '2026-11-23 06:02:58.011247+00', '2026-11-23 06:02:58.044253+00', 'active', 'authorized', '2026-11-23 06:02:57.995524+00', '2026-11-23 06:02:57.995524+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, true);
INSERT INTO public.connections VALUES (13, '676085c03cbb40f3a5a9942cdd091169', 'production', 'crm', 'dead', 'acme-oauth', 1, '\x018975a7081f2e1c24371345f7bbd551c33bcdc1995c6953d81606f19c597da15ac91acdad49f1da930c37a5f653334ae2cbb50e124869a820391d5c99462105dedbfc08bbde2c78b66dd3335021a28b37df689b74101777ffe1daff7fd67e0daf2b29ca878885bf5c9836a97bb77d55264842a5b334cf4a7a76bc60224a8fee176786e05ba835a270e9dca72239d90d5a9f654cc6741007f96a75f53bb261346373490b37b688d5a8526887f28b52c8e4478039bd2cebace45eb66029cf04ca20be4dd489598788ad3f3dae9edaec9ed2d65d6407867d1d92a41d14c240f6ebc324bb6cd794f028c7c372913f743bb840319fefe4f671322ea3a04216d2ef62a05a7c', '2026-11-23 06:01:58.048+00', '{}', NULL, NULL, NULL, '{"end_user_id":"dee"}', '{"id":"dee"}', 'dee', NULL, 'dead', NULL, NULL, NULL, 'invalid_grant', 'It was revoked.', true, '2026-11-23 06:02:58.078709+00', 1, NULL, '2026-11-23 06:02:58.050225+00', '2026-11-23 06:02:58.078709+00', '2026-11-23 06:02:58.060185+00', '2026-11-23 06:02:58.050225+00', 'needs_reauth', 'invalid_grant', '2026-11-23 06:02:58.078709+00', '2026-11-23 06:02:58.050225+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (14, 'b4ca23d82ca940389e421d58d5f44246', 'production', 'crm', 'slow', 'acme-oauth', 1, '\x018975a7081f2e1c2410246578965e05d3d2b2ae23ae28f0416e487947f1d98b6ef3c41b1a87ea6cd0b21811392760b103b17a0bde1f06d2abad7be532f2d7b9e8c32bd0013f1c5a1d8c696e971793ae154d69d59b2d5b1bfe7ab598c42f7415507430ec6cedcf2f1bc2ab2ff0f6f180ae616c563129321a13785153f20b4c991e632739c045379ad8288ca2f5b369ba502a306f7c119d69044c574025aa0a74c75b12b0870824125531e84b5d0626aaa26bd5a9bfe018b9ad7ea270f0b4bdbe0673383d8f28fd36e0d841132545968197064be9c541d06cd528712f48dc02d0e1c98b5d9b306b7f0588fcb231f3bc0e11d5c882a2a7037beb', '2026-12-23 06:02:58.091+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'slow', NULL, NULL, NULL, 'token_endpoint_unavailable', 'the token endpoint answered 503', false, '2026-11-23 06:02:58.131552+00', 1, '2026-11-23 06:17:58.131552+00', '2026-11-23 06:02:58.092209+00', '2026-11-23 06:02:58.131552+00', '2026-11-23 06:02:58.102492+00', '2026-11-23 06:02:58.092209+00', 'degraded', 'token_endpoint_unavailable', '2026-11-23 06:02:58.131552+00', '2026-11-23 06:02:58.092209+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (16, '7aabb27ccc554b459f47c5d45564a4b4', 'staging', 'crm', 'staging-1', 'acme-oauth', 1, '\x0162a2d0e89a7a4a26d24ec857fea78acc401691a11ba7d9e6f3bc45f61524b872dcd026849fb1e34578dd7e32f382515c3910e3555241c71812586b8e9ad357459afa4649251db2fbd0723f7e91ee530cd2871bb58037b020db26f5ce661f8258da05675a426570c8a0d14386155cfcbd13de2912361eedc37b07384aebb41c239d65ea94811485a35267538d46ae0c1b9a15c7c44bd8c6c312a2808dde896ce37e3388943ae5b25a9e6adc4f39fdc74c0cd7a0908868d116895f08747c1a96abd3d6c9d89752746e0555bbeb2df02c349fc05726c52289e3967e69fcdefee6b7c3d4f23faef169e36476675e245c30e449cab1c287933d8ee587c460649307d27a5cb78751440b1c', '2026-12-23 06:03:05.49+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'staging-1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:03:05.492998+00', '2026-11-23 06:03:05.492998+00', NULL, '2026-11-23 06:03:05.492998+00', 'active', 'authorized', '2026-11-23 06:03:05.492998+00', '2026-11-23 06:03:05.492998+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);
INSERT INTO public.connections VALUES (17, 'f656a2ec084c46068a55ec53f7aebb08', 'production', 'crm', 'expired', 'acme-oauth', 1, '\x018975a7081f2e1c2489e796287c572666ecbc9f15482616ab5dce008124afd92b6dee21f66b3e820c159100bea14accb31e8eb6401964e6cf1c8e22d56c906916a91f886b4c833ed47cf9dbc8be73cdf4bb8c434e2970b00b4f879e7aee9a35eeae5eadac841d7d29506216d17230c658caa38d6c471abd60a622b0ca25312837acfc2c5611bdcb9f4386096db9e5b9b00125e0c9e14e966853253513b8ddf898d99a361481f70bcb4d7ef9c8e6741a2970dbd8bdee84f00baa863c93a883fe5663640def434029a924dcb8190d815dc729fc6475bce3174cb2da8acb124174da3887d6922ce5e3228aac8bb5d0174cf2e9644ed75be740636f840347c1027402d0dffea6a0afbc512d9b094c367c', '2026-11-23 06:02:05.527+00', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, 'expired', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-23 06:03:05.534314+00', '2026-11-23 06:03:05.534314+00', NULL, '2026-11-23 06:03:05.534314+00', 'active', 'authorized', '2026-11-23 06:03:05.534314+00', '2026-11-23 06:03:05.534314+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL);


--
-- Data for Name: data_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.data_keys VALUES (1, '8975a7081f2e1c24', 'production', '5edd1836948fb8c4', '\xf9042e3186a4b35ca30d37a99999ad8f9642c7027ce5b19bab9dbc435c7d324533da809370c28f8bd42510cda07488ce4b39d7d93bfb9cda7eccd391', 65536, '2026-11-23 06:02:57.527097+00');
INSERT INTO public.data_keys VALUES (2, '62a2d0e89a7a4a26', 'staging', '5edd1836948fb8c4', '\x8505451457982f2f067dc8f576bd6a9aef28543d8ee25bcdc828a9568c90023b13cfaa187d41a6b9bfe355fca2fb67f1ad65d3c08037c9898fa62c85', 65536, '2026-11-23 06:02:57.529317+00');


--
-- Data for Name: deliveries; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deliveries VALUES (30, 16, 'msg_db3a7e6d05e84547a4a8368782e6c71d', '2026-11-23 06:02:58.131552+00', 'production', 'crm', 'slow', 'crmslow', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:58.131552+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.170546+00');
INSERT INTO public.deliveries VALUES (21, 11, 'msg_6c821b87c202431f84c436568be6b514', '2026-11-23 06:02:57.975553+00', 'production', 'crm-api', 'made', 'crm-apimade', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.975553+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.00673+00');
INSERT INTO public.deliveries VALUES (12, 7, 'msg_6607dc16415c4c36839ba44a28278d58', '2026-11-23 06:02:57.88056+00', 'production', 'signed', 'signed', 'signedsigned', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.88056+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.912498+00');
INSERT INTO public.deliveries VALUES (13, 7, 'msg_6607dc16415c4c36839ba44a28278d58', '2026-11-23 06:02:57.88056+00', 'production', 'signed', 'signed', 'signedsigned', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.88056+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.927426+00');
INSERT INTO public.deliveries VALUES (1, 1, 'msg_48464ee38c5a4649a39ad170ea5c0ae6', '2026-11-23 06:02:57.693521+00', 'production', 'crm', 'valid', 'crmvalid', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.693521+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.832122+00');
INSERT INTO public.deliveries VALUES (5, 3, 'msg_967df0c7187d4f0090e1eb3a8d496952', '2026-11-23 06:02:57.770151+00', 'production', 'git', 'git', 'gitgit', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.770151+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.83229+00');
INSERT INTO public.deliveries VALUES (2, 1, 'msg_48464ee38c5a4649a39ad170ea5c0ae6', '2026-11-23 06:02:57.693521+00', 'production', 'crm', 'valid', 'crmvalid', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.693521+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.832346+00');
INSERT INTO public.deliveries VALUES (6, 3, 'msg_967df0c7187d4f0090e1eb3a8d496952', '2026-11-23 06:02:57.770151+00', 'production', 'git', 'git', 'gitgit', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.770151+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.839481+00');
INSERT INTO public.deliveries VALUES (7, 4, 'msg_dbb053204391479e86aadc5d40f0ea6c', '2026-11-23 06:02:57.798185+00', 'production', 'mail', 'mail', 'mailmail', 'https://127.0.0.1/hooks/override', 'delivered', 1, NULL, '2026-11-24 06:02:57.798185+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.85666+00');
INSERT INTO public.deliveries VALUES (32, 17, 'msg_debd60417f404767b760c66be3e3dca7', '2026-11-23 06:02:58.139907+00', 'production', 'crm', 'deleted', 'crmdeleted', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:58.139907+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.170648+00');
INSERT INTO public.deliveries VALUES (20, 11, 'msg_6c821b87c202431f84c436568be6b514', '2026-11-23 06:02:57.975553+00', 'production', 'crm-api', 'made', 'crm-apimade', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.975553+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.015484+00');
INSERT INTO public.deliveries VALUES (15, 8, 'msg_0c4824a7e89e4104ab87efb1e768d171', '2026-11-23 06:02:57.901587+00', 'production', 'steps', 'steps', 'stepssteps', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.901587+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.93076+00');
INSERT INTO public.deliveries VALUES (4, 2, 'msg_a2bd5766010e46aa98d6e4792f51d42e', '2026-11-23 06:02:57.743621+00', 'production', 'crm', 'valid', 'crmvalid', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.743621+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.873695+00');
INSERT INTO public.deliveries VALUES (9, 5, 'msg_cf64be2222a542ac9080e9f5a3e37224', '2026-11-23 06:02:57.840935+00', 'production', 'ledger', 'ledger', 'ledgerledger', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.840935+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.873805+00');
INSERT INTO public.deliveries VALUES (14, 8, 'msg_0c4824a7e89e4104ab87efb1e768d171', '2026-11-23 06:02:57.901587+00', 'production', 'steps', 'steps', 'stepssteps', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.901587+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.942918+00');
INSERT INTO public.deliveries VALUES (8, 5, 'msg_cf64be2222a542ac9080e9f5a3e37224', '2026-11-23 06:02:57.840935+00', 'production', 'ledger', 'ledger', 'ledgerledger', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.840935+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.884456+00');
INSERT INTO public.deliveries VALUES (3, 2, 'msg_a2bd5766010e46aa98d6e4792f51d42e', '2026-11-23 06:02:57.743621+00', 'production', 'crm', 'valid', 'crmvalid', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.743621+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.887822+00');
INSERT INTO public.deliveries VALUES (11, 6, 'msg_dfc6784a32b8457cbbbb7430c8400efc', '2026-11-23 06:02:57.862478+00', 'production', 'machine', 'machine', 'machinemachine', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.862478+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.896519+00');
INSERT INTO public.deliveries VALUES (10, 6, 'msg_dfc6784a32b8457cbbbb7430c8400efc', '2026-11-23 06:02:57.862478+00', 'production', 'machine', 'machine', 'machinemachine', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.862478+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.909875+00');
INSERT INTO public.deliveries VALUES (23, 12, 'msg_5649fa8cc72b4016b6f933c4957164e8', '2026-11-23 06:02:57.995524+00', 'production', 'crm', 'refreshed', 'crmrefreshed', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.995524+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.022946+00');
INSERT INTO public.deliveries VALUES (22, 12, 'msg_5649fa8cc72b4016b6f933c4957164e8', '2026-11-23 06:02:57.995524+00', 'production', 'crm', 'refreshed', 'crmrefreshed', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.995524+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.032191+00');
INSERT INTO public.deliveries VALUES (16, 9, 'msg_e5014539d0c14257822e132d3087c8d0', '2026-11-23 06:02:57.921084+00', 'production', 'cloud', 'cloud', 'cloudcloud', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.921084+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.946028+00');
INSERT INTO public.deliveries VALUES (17, 9, 'msg_e5014539d0c14257822e132d3087c8d0', '2026-11-23 06:02:57.921084+00', 'production', 'cloud', 'cloud', 'cloudcloud', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.921084+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.964807+00');
INSERT INTO public.deliveries VALUES (19, 10, 'msg_6eacd6384a4d437eaaf386901698cc11', '2026-11-23 06:02:57.938179+00', 'production', 'open', 'open', 'openopen', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:57.938179+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.967812+00');
INSERT INTO public.deliveries VALUES (18, 10, 'msg_6eacd6384a4d437eaaf386901698cc11', '2026-11-23 06:02:57.938179+00', 'production', 'open', 'open', 'openopen', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:57.938179+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:57.978677+00');
INSERT INTO public.deliveries VALUES (27, 14, 'msg_db1aeb11bf344f099d06520150c1d3be', '2026-11-23 06:02:58.078709+00', 'production', 'crm', 'dead', 'crmdead', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:58.078709+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.116843+00');
INSERT INTO public.deliveries VALUES (29, 15, 'msg_a975f46e498d485b82b2e1cf673a9c09', '2026-11-23 06:02:58.092209+00', 'production', 'crm', 'slow', 'crmslow', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:58.092209+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.119086+00');
INSERT INTO public.deliveries VALUES (25, 13, 'msg_1385f8a82f584826bbc998783bd1f38e', '2026-11-23 06:02:58.050225+00', 'production', 'crm', 'dead', 'crmdead', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:58.050225+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.066221+00');
INSERT INTO public.deliveries VALUES (24, 13, 'msg_1385f8a82f584826bbc998783bd1f38e', '2026-11-23 06:02:58.050225+00', 'production', 'crm', 'dead', 'crmdead', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:58.050225+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.069085+00');
INSERT INTO public.deliveries VALUES (26, 14, 'msg_db1aeb11bf344f099d06520150c1d3be', '2026-11-23 06:02:58.078709+00', 'production', 'crm', 'dead', 'crmdead', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:58.078709+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.124635+00');
INSERT INTO public.deliveries VALUES (28, 15, 'msg_a975f46e498d485b82b2e1cf673a9c09', '2026-11-23 06:02:58.092209+00', 'production', 'crm', 'slow', 'crmslow', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:58.092209+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.127228+00');
INSERT INTO public.deliveries VALUES (35, 18, 'msg_67ea2dc49b824efa9b818328801b9665', '2026-11-23 06:02:58.153797+00', 'production', 'crm', 'deleted', 'crmdeleted', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:58.153797+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.186311+00');
INSERT INTO public.deliveries VALUES (34, 18, 'msg_67ea2dc49b824efa9b818328801b9665', '2026-11-23 06:02:58.153797+00', 'production', 'crm', 'deleted', 'crmdeleted', 'primary', 'delivered', 1, NULL, '2026-11-24 06:02:58.153797+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.192596+00');
INSERT INTO public.deliveries VALUES (31, 16, 'msg_db3a7e6d05e84547a4a8368782e6c71d', '2026-11-23 06:02:58.131552+00', 'production', 'crm', 'slow', 'crmslow', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:58.131552+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.164102+00');
INSERT INTO public.deliveries VALUES (33, 17, 'msg_debd60417f404767b760c66be3e3dca7', '2026-11-23 06:02:58.139907+00', 'production', 'crm', 'deleted', 'crmdeleted', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:02:58.139907+00', NULL, NULL, 200, NULL, '2026-11-23 06:02:58.164202+00');
INSERT INTO public.deliveries VALUES (36, 19, 'msg_4e08dc3a6040450eb0eeab0cd56b269a', '2026-11-23 06:03:04.013839+00', 'production', 'crm', NULL, NULL, 'primary', 'delivered', 1, NULL, '2026-11-24 06:03:04.013839+00', NULL, NULL, 200, NULL, '2026-11-23 06:03:04.035753+00');
INSERT INTO public.deliveries VALUES (37, 19, 'msg_4e08dc3a6040450eb0eeab0cd56b269a', '2026-11-23 06:03:04.013839+00', 'production', 'crm', NULL, NULL, 'secondary', 'delivered', 1, NULL, '2026-11-24 06:03:04.013839+00', NULL, NULL, 200, NULL, '2026-11-23 06:03:04.032374+00');
INSERT INTO public.deliveries VALUES (39, 21, 'msg_6cb8f682ae0b42b09fedca2ee1eaf665', '2026-11-23 06:03:05.534314+00', 'production', 'crm', 'expired', 'crmexpired', 'primary', 'delivered', 1, NULL, '2026-11-24 06:03:05.534314+00', NULL, NULL, 200, NULL, '2026-11-23 06:03:05.57213+00');
INSERT INTO public.deliveries VALUES (38, 20, 'msg_fd9524061748413fb993a95d50614483', '2026-11-23 06:03:05.492998+00', 'staging', 'crm', 'staging-1', 'crmstaging-1', 'primary', 'pending', 1, '2026-11-23 06:13:05.54839+00', '2026-11-24 06:03:05.492998+00', NULL, NULL, 503, 'the receiver answered 503', NULL);
INSERT INTO public.deliveries VALUES (40, 21, 'msg_6cb8f682ae0b42b09fedca2ee1eaf665', '2026-11-23 06:03:05.534314+00', 'production', 'crm', 'expired', 'crmexpired', 'secondary', 'delivered', 1, NULL, '2026-11-24 06:03:05.534314+00', NULL, NULL, 200, NULL, '2026-11-23 06:03:05.565315+00');


--
-- Data for Name: environments; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.environments VALUES ('production', '2026-11-23 06:02:57.523988+00');
INSERT INTO public.environments VALUES ('staging', '2026-11-23 06:02:57.528522+00');


--
-- Data for Name: flow_results; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.flow_results VALUES (1, 'staging', '94f19d38623b9a44eea0e9582b7576d1f592d7cbdf2c043430e969e619cd44e8', NULL, 'crm', '3db8a4a6-b254-4eba-9da3-5aecd4e0b3d7', true, NULL, NULL, NULL, '2026-11-23 06:03:03.955871+00', '67111477d4b6f4158cb7a82b618acd564f5fd96086b44f5e3a452f2679c54eaf', '75520c710e052ff0dd083b0c536a1ed2868cd4c6856d1437e5b6c312028f1881');
INSERT INTO public.flow_results VALUES (2, 'staging', '248b13c7a555ebcee28a90365e6dab155ed48a63f02816fdd5e2c7c576f14629', NULL, 'mail', 'ca2b95ac-2d1f-4ef8-af28-997d04629b1b', true, NULL, NULL, NULL, '2026-11-23 06:03:04.008834+00', NULL, NULL);


--
-- Data for Name: flows; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.flows VALUES ('14b22366caf0784574450072110ad8639535d7015ae79d9340cea49ab7fc4ef3', '7c721b2011065cc25aa3f4271358485dad50133504358be6ecf70458a28fdcbc', 'production', 'crm', 'fa03e5b9-fbe5-404a-ae86-bf163c36d528', '62d2a6359fdd8ed5b32ded4ac48016471f5c3faa3570e48a3c7ae762bba4999f', '2026-11-23 06:13:03.933302+00', '\x018975a7081f2e1c24070bf8613e8b1022675f97414ec11fbb057d2e8ac9e5efa50a9b20adefc66d752daaae89f2160cd2aed402b2e732f5a641be6ffa374b3c517c82f248b8f865930b26731cb1f0c0bcf78110bc816203f7b5df785a46e1af18a2ff784aeb5aad40e5ac5781f8c5d997f5225f74352e5e5a98e3cda9e9a8b14e3cc5b86413dede0c70b4e6378fa158bdc3b81aa541f9fc957f91e6627b6a0d8c88d51442d37a8b004c309136fb8250b6937a393b8a666ca2c6b6680d6ef9ad146ca7c11500f7ff104ad10df40327b2bf4905fcc26b69820f15c4f611ee9eb7c3b2a1744fd84a3997f4b46434dc0e2b885068ad24ac95284ebb6935b036526f75c802dfc3c0b156f45ca18f8efbe7d38c7b898f068da8c21fc2e26ec6f163ebe19345d81012bda21c541b04402dfb9634f6ba8f4462ce0b11b87ef8c579a0dea23d42c78c8ae2f8c989af654370ea23bb572a3100f5d22ae4a82390ef68b158801518476e3b6ec40703d0a61f74a4277c1f7bab91b838127d7e9099f87e82c9027fb56cd67dbfe0596db211e870fbd7c23d9128704c38f9e6542cd7b6a556722248661b174a11c5ec5e3878a2a5602eace776489cf45d2e545e252b09f6d1675b6f5c8fe047795b840162f2a389dc06b0d516b9f5cbb6fe803aa0d5a484272d9962fd80f40ad6cabd1642417ce48ca1ac03f1505ddc0069509e74ff763dc5fc14316bdf6e2e30a4896817994f203b8b5c05abccbe66448bcd501ea416df7d2b30733ba7d43dc56b5617df1208dde7a9b6214200c0f57018db1313a68bc056b89fbfe9b2b1417c9492b3d411041368f540daa3d5908847794b5712f0842921838b5aeb97afda41d45ff2b942eec00c68214641e6776e7a9ba1994bde9559d95e2e9721b8ab6b3dd30aa6eb18e9f403299779333f68283e14f1dcf6ee2af4224439da07113262eece576443e1d038872b21c30de58a7920a476c9da4e548e6336d1c2cc741d0bc72d4cc4f6e7629630ea1a6ed645e1247f470a0b411d5e128977efcafe7c4125c0f0a8d594c11d2adec76df8d48263296e1ebc22546170ec1b17ba90c37ebf44ec43e182c8984249515e14e310abf0a7e3847307bfe9818cda19899917e3216d5682aae20ae6db92611bac5bd6e4503c62bfeacfe735e3523f929a525b0108a11c21a679e839e4cbf14fea50dd02de062d5fa8f60928183bf59efec3fb1a3dd933f981a73df627594a23fbc40cfe80e24c071d5ad1d6dfc275ba018d3a51cfd143d290c8504e85fb93d77dcc36f9dded61467ebdd08c3f088ad5bbc6e73e2174f02458ac108f647cadc42aebbd665563e15d9ff48d5bb0b8fa3a696f266aa522b028d528e22f82bff5477ec0c282fbee80a51218b63c2e044e975e1ed8720fbf7353a76096a01a4fbeaf9f8d5a5cc646f581c8f81a10e9f93bd005caa0');
INSERT INTO public.flows VALUES ('5ee1d9cdc2730a9e54ef31ac81d1e8e705087c515f30626d4325100214ab99c8', '6e5301d94d4863e5c12b4a0ec71ef49851d7641775fc005b91a7ec4900be90ed', 'production', 'crm', '7df769bb-f49c-439a-80bd-15867913eda6', 'c75f6ace1c990dce9a1efcbc9815b83b9916eb192c960f189a72704d04f8fc6e', '2026-11-23 06:13:03.93788+00', '\x018975a7081f2e1c243e6379dd60ff36e225cba78a96591714f800bca893e5e8f007cc0703a1d324603ee171bc41667fd7df13ef6294d09f22a28701e4d519b868f7742703130e1a52a37c4656272d3aeb9c3edf14ff4d66e2d628f14053079b78941117c20bccb9aa50b4b454ec0af8d696da093dc9396f74c085d5031765c558b253596030177de5103746a6598b2fc25cf9a8a6ebc25d4a9b206465639f09f278dca5c7c6783b144a504cc6ebf96ec1eac4d4f4bb0f298f9ab39fbf8eb448c1aefe15c3eb861237e4664ff336835ad675db999a16724068f109a43ef3cee0220a91f52c20dcaa1b00f9778399b3a3e3d475632b404170e84af510d5edd600a5491d93366f7e1a94fda43ef236312c024a946c32615c69b5935d0b28c8c9caf1db25caf831a84ecf36b7e275c4d6921d2272b2abdeca9984c8a6d436d976e5c5aebefe4815eca5082065dbe043e0d5571cbeb2a02ef3b2dd1f7ab233d38d5adbcefd10eb0ef8aebf4d41c419cdb9f97cfc7c5ddb05ea0d08e3e53d9324550d74119e69ae83d347322caf24c0935f06aa26816d56f46e25a99d163747ac50125bdeb6d81b7d9b4d4c3c9ae58e858846d6f0562558717eba6b679fba140ddb0d2db0f12ccd2cf69adb76fd02f8a8340b5b8b42b05e62c5e418489652f1e21328423ad10dd58c81e41e9a5e4f61f8adb45d97386167eaf79bd290a63425ade8a0da31da2054331a50a705616abf0e7f09829ecb93748d6de7cc7d6bc3a2929133afb130cc93f271ce77d8fbb8bacb83922c573a9c55fbd09c3aa419e03bb9de8efd62a04a77b08c4b100159e63499cd95679969b74856d4d30fdf0b4fd82006bb5529c52b98c6d0b7e224f3e870dea6890e6d0508b05ca1ae9fb59f13e9aa2de30eb0a51169ee1db076ee9cdb4fc1ad09b39850149ad715954c0fa0501740473ccb65b0476b406f70f0d94838190db1989e7572fdc7bcef52501810db2f180d00d521dcd58074ca1d58e5725e3a40325fb9a36ce47f489e1eb8ed2a74a1dfec08c34ddaa81986057fd6093b648ea95141c3ec0842ff9fc152bc2cc813ef56bdb28a545a83c7752f6c0dc16e9ae73c7ebba00214b63c2996cd0a09c0f93f0df5cbea806900b332e45ca88e49392534e830f5fa409ac5c73e94476d15235538c34fecfd2074f0a2d969eb813ca106ce119d11dcb98c80991dde8ba1f971ee7ae78cf8e1e8d3326788b89aef628ca4b172dcfe2b5280f6b6072b7252c30d99eef6fa4e6ee1320de0f1c95da3015b418d14d4b8e87c70a0d9abe7acdf0693bb64586f9766ce2116f8493a6c5e6af1b049b5edcf5e789cbc8bcea914f182ab06b56a380de66ccc00b493c63204f04093f4ae06c186d04279c3ce5cdaf31ca446854cb82f210a729f1d001c7621a0f1f8c9de2c59f927041e6b9edc8446168ab52bdc855e27b0');


--
-- Data for Name: integrations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.integrations VALUES ('effc79ee74314f3ba86bc588a57ef7e6', 'production', 'crm-api', 'acme-oauth', 2, 'CRM by API', false, '["contacts.read","offline_access"]', '\x018975a7081f2e1c2444a8d97c0d3b4c7e488574695d3c53328a756bbf7aa3f1db4eb22d660ccbe2db00c19cce7adb14872bba8c8c72ee3fd4ae15f39660ec147c9496964e4dc82d62cf9b892342a2dff86b180eae0260fe3446309a84e27e6b64a362127a737b0182ca5a814ce072087d526452aa53922627ce9a849edd4ac70f183c0ead9f7b8df9220f102a7140be30418daee524d8fbad664ca652d9f33f07cfa0e43fe7583bc4c87be10271bd121585a0e378c117e07e9f14fa77b09087dd84c08ca90fe8cdad155d2bf5be4b2b', '2026-11-23 06:02:57.958006+00', '2026-11-23 06:02:57.987567+00', NULL);


--
-- Data for Name: keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.keys VALUES (2, '1046b4cc6ab94f86e9c2308ed9403560b231ea05d1a30063960423fefdc467f1', 'production', 'key', 'ended', 'KqDy', '["environment:*"]', '[]', NULL, NULL, 0, '2026-11-23 06:03:00.234592+00', 'gateway keys create', NULL, NULL, '2026-11-23 06:03:01.441228+00', NULL);
INSERT INTO public.keys VALUES (3, '3b598787ae489af54b1a2d18efd7134639335ffe12504cb16c8e4d1c2c291c47', 'production', 'capability', 'address', 'u5Pt', '["environment:proxy"]', '[{"connections":["crm/valid"]}]', NULL, NULL, 0, '2026-11-23 06:03:03.469227+00', 'gateway keys create', NULL, NULL, NULL, NULL);
INSERT INTO public.keys VALUES (6, '216dea498390a9e7f5cb81744169f194b575374aa199d8617a9a4be6a0f41fc1', 'staging', 'key', 'all of staging', 'uppC', '["environment:*"]', '[]', NULL, NULL, 0, '2026-11-23 06:03:03.867233+00', 'a key of gateway.yaml', NULL, NULL, NULL, NULL);
INSERT INTO public.keys VALUES (4, '2a888d45a4eefdcc685a7d64d52451c460c3a8098ae0429e9c5c7ce297624225', 'production', 'key', 'parent', 'Cud0', '["environment:api_keys:*","environment:proxy","environment:connections:list"]', '[{"tags":{"team":"red"}}]', NULL, NULL, 0, '2026-11-23 06:03:03.846159+00', 'a key of gateway.yaml', NULL, NULL, NULL, '2026-11-23 06:03:05.69623+00');
INSERT INTO public.keys VALUES (5, '4067e660af462a91cae28d7e43a80391b93dae8cf0a6dc8b39d4844146dc81c0', 'production', 'key', 'child', 'nHwY', '["environment:proxy","environment:connections:list"]', '[{"integrations":["crm"]},{"tags":{"team":"red"}}]', NULL, NULL, 0, '2026-11-23 06:03:03.859094+00', 'key 4 (parent)', 4, NULL, NULL, '2026-11-23 06:03:05.69623+00');
INSERT INTO public.keys VALUES (1, '45390caf06acc594c8105114381c10e411626131920e50436e2714073ba4b546', 'production', 'key', 'agent', '8jGQ', '["environment:proxy","environment:connect_sessions:write"]', '[{"connections":["crm/valid"],"rules":["GET /api/things/*"],"hosts":["127.0.0.1"]}]', 600, 500, 1, '2026-11-23 06:02:59.073402+00', 'gateway keys create', NULL, '2035-02-09 06:02:59.073382+00', NULL, '2026-11-23 06:03:05.69623+00');


--
-- Data for Name: outbox; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.outbox VALUES (1, 'fc6a5edf0af9474f83b20eff11b1988e', '2026-11-23 06:02:57.693521+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true,"tags":{"plan":"gold","end_user_id":"ada","end_user_email":"ada@example.com","end_user_display_name":"Ada","team":"red"},"end_user":{"id":"ada","email":"ada@example.com","display_name":"Ada","tags":{"plan":"gold"}}}', NULL);
INSERT INTO public.outbox VALUES (2, '8093f59ffbfa417798a362d0d15a1c36', '2026-11-23 06:02:57.743621+00', 'production', 'crm', 'acme-oauth', 'connection.reconnected', '{"operation":"override","success":true,"tags":{"plan":"gold","end_user_id":"ada","end_user_email":"ada@example.com","end_user_display_name":"Ada","team":"red"},"end_user":{"id":"ada","email":"ada@example.com","display_name":"Ada","tags":{"plan":"gold"}}}', NULL);
INSERT INTO public.outbox VALUES (3, '9915bd942d444efa9b46090db4fbc18b', '2026-11-23 06:02:57.770151+00', 'production', 'git', 'acme-hosted', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (4, 'b5c64c15d5e94fb4af5d60db2384dc1d', '2026-11-23 06:02:57.798185+00', 'production', 'mail', 'acme-key', 'connection.created', '{"operation":"creation","success":true,"tags":{"end_user_id":"bob","team":"red"},"end_user":{"id":"bob"}}', NULL);
INSERT INTO public.outbox VALUES (5, '0c3a451ddeb54376ace5f05d45604754', '2026-11-23 06:02:57.840935+00', 'production', 'ledger', 'acme-basic', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (6, 'f3839a7b9d3c4dbbba4e2ffc6387145e', '2026-11-23 06:02:57.862478+00', 'production', 'machine', 'acme-machine', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (7, '8af8d4fed0704020bd0a11450167775c', '2026-11-23 06:02:57.88056+00', 'production', 'signed', 'acme-oauth1', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (8, 'fb73297f52c14e8599bc2a958383b047', '2026-11-23 06:02:57.901587+00', 'production', 'steps', 'acme-steps', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (9, '864e751ac4b040d599d08f6be9946d1b', '2026-11-23 06:02:57.921084+00', 'production', 'cloud', 'acme-cloud', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (10, '87930654c8324cf0933b75dd4f5a584c', '2026-11-23 06:02:57.938179+00', 'production', 'open', 'acme-open', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (11, '89f7b02655da4d8bb7ea2c051258be3d', '2026-11-23 06:02:57.975553+00', 'production', 'crm-api', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (12, '7592f03cf8dc4f8095668ef903991445', '2026-11-23 06:02:57.995524+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (13, 'babe910dab6b420f95de39cf9d803cdb', '2026-11-23 06:02:58.050225+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true,"tags":{"end_user_id":"dee"},"end_user":{"id":"dee"}}', NULL);
INSERT INTO public.outbox VALUES (14, '036bd39611e840899eb142f103e97b61', '2026-11-23 06:02:58.078709+00', 'production', 'crm', 'acme-oauth', 'connection.needs_reauth', '{"operation":"refresh","success":false,"tags":{"end_user_id":"dee"},"end_user":{"id":"dee"},"error":{"type":"invalid_grant","description":"It was revoked."}}', NULL);
INSERT INTO public.outbox VALUES (15, '9afd95b8edd341aeb43baf89357760e0', '2026-11-23 06:02:58.092209+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (16, 'b1efaab014f641fdbcb0c79d36dde895', '2026-11-23 06:02:58.131552+00', 'production', 'crm', 'acme-oauth', 'connection.degraded', '{"operation":"refresh","success":false,"error":{"type":"token_endpoint_unavailable","description":"the token endpoint answered 503"}}', NULL);
INSERT INTO public.outbox VALUES (17, '503da0e369514e648630e016a7448fa0', '2026-11-23 06:02:58.139907+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (18, '143f3b8b10a34009922c945d5a51d09c', '2026-11-23 06:02:58.153797+00', 'production', 'crm', 'acme-oauth', 'connection.deleted', '{"operation":"deletion","success":true}', NULL);
INSERT INTO public.outbox VALUES (19, '8b1fed47dcb44f6baa1ceaf6b25116e3', '2026-11-23 06:03:04.013839+00', 'production', 'crm', 'acme-oauth', 'forward', '{}', '\x018975a7081f2e1c24f2416fbfa6e061fd3d5317b49bd988a3cf731dacb9d0aff92bee2e06bd61c115630269202895c28a21d262083950d797c2b044336f39843743f99542e091a2c03fd2a03ebc405f22f401937cf91f1af9103e0a314ef1a5940c6b8d1cd9ec4bede5546695b51c312dc6e6a54d0a32710759548bfcd0f7bd1379c067926aa70fa0fe7e872d1cd7c0763917485195ace354c063d50d7e34dcfe21cebd6463b956b0d53b287144f7c9882dfd31d1d7494fecbc5da9e98d4fa1fca4d96b38595368966da97b4876b4e6cba537eee8791e4e16df0add4b3a96fd0314ddd3bc9c8d84dddfc2e0f7ae0e499bee758573388bfdd1');
INSERT INTO public.outbox VALUES (20, '0a58b3517c09463aa39fdb1cd6f08b04', '2026-11-23 06:03:05.492998+00', 'staging', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);
INSERT INTO public.outbox VALUES (21, 'e27a0f31b0f54682a61799cb2492ecfa', '2026-11-23 06:03:05.534314+00', 'production', 'crm', 'acme-oauth', 'connection.created', '{"operation":"creation","success":true}', NULL);


--
-- Data for Name: pending_connections; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.pending_connections VALUES ('64dca1b07ce04563b2863e137ddc1f29', 'staging', '94f19d38623b9a44eea0e9582b7576d1f592d7cbdf2c043430e969e619cd44e8', 'crm', '3db8a4a6-b254-4eba-9da3-5aecd4e0b3d7', 'Sz6nUx1dye1gpg1K3jsTgCxLHsPwUK18RMg0342ZEGQ', 0, '2026-11-23 06:13:03.951624+00', '\x0162a2d0e89a7a4a263592000aff1f92f9ba8de0ca93f22e5fea5cc17f5054a873d32fcb8c93cefb7b31c75604266fc6ff8c4e0f53aace181c524348cf8ef468a74a8914e69589628b655545611882638858fe5b8d50cb871cc87db19121a2e38ec0dd601a3de1c8e230a86e165978058580d34cd575cdba1a65d64a6607a60393b1273d241038215451b151fb5e1970579e393c8fea9afe7c66dc64ed5aa8b345fcb66095dcace0d1e3b03690ff816d37168c20bcb7286768956d2b646af6c4f2ca4e433192d9719da26e0e286b0abbdc51fd3bef04b257d07f9652564ef02e117b2a61aa0190dcc25e2a0b30165e3b952a578abf8c3f43f0ee4bc7f1df224393e80fc2c2f3b3e00107919fa83eb8e53f99befce15300b9cfac8f976cf0725f4f5f0c8efee86989a16f2adbb6f1e2b9ca96b539bdd6d1f573af8f7ad9c781621bb6f07393dd45fc7a29f86f5467ce5818845ef0184dbcb6a8d5625cbc7b4c89af3b993780984f7bd0d972963cba93ee4265ee8d64c5090cbf3c12c65f5395cff71411303f5e069036de0a083b20a0a993389f9b2785bbac9faee3befbe5b94c2ebae6cb377d8e79181255e4d350fd8e5ca1dd0e229a133b6fc234b60d12683fb938ed8f9f489c9909ff88284e8eee490d6016addffc931da57376fc07c9b9b28611e39f8bc5d53c2a23e5029e732483d372d9389f8c6782fef2f69dc344aa187238230037e18f3860223de47783632c32fa07f4152ebedf4a7bb59112abf42dc5fbd3566461f1e6484ad0f75ce98e3a098f4593465e0d9b18bff75f2e3364bd2601c65e3fc5139b4d02aeefda2ba45380a037d44f64defd28417150aca29a0d883d9e69da5a6cf5f3b43e4df1020952dc4ff2e9bc056556949169cdeef1910e92ac9450c12caaf27bd026e2f3c6fa9e82c676db93639d669d268211f6c5270d6a2ab13d23b4e5ada351efe5caf8343af14335c3069178d15c975e076c1eef4a84313f6b0448c20d68727ec2bcf90b5bf3327c9ff6ad004dd09e60badd607b60');
INSERT INTO public.pending_connections VALUES ('797cfe559fac48619c4dbb21500132e3', 'staging', '248b13c7a555ebcee28a90365e6dab155ed48a63f02816fdd5e2c7c576f14629', 'mail', 'ca2b95ac-2d1f-4ef8-af28-997d04629b1b', 'Sz6nUx1dye1gpg1K3jsTgCxLHsPwUK18RMg0342ZEGQ', 0, '2026-11-23 06:13:04.002192+00', '\x0162a2d0e89a7a4a2644a004e20ea86a22298f29c037bfe2c796d643835b619e807512b2720e661d7cfb373790d84e1267e59b0f0b488a183a5c67b14dfaedaca30c3fd0a92a2035676a7629a8fe3759fe45a03b7eecf024489553b3a9fe468577ddffd1c9b1c0d3edbe2a92c882e43e35f3f4187d631ea005a05618c4d4f36f31a6b94390b4ac5d6d6fc958d4a9c6e43ea8f45e0272127ec3e91452847e87c5aa16f464045ab73af5d943fe5de7659ca52f64aa65047a742ad7d8a12322fe2d7316d258c2618ab6418a1a77da0b7fb899556031d31395eb0a685e54536321af80f6a393327ce3ca18a8c6855a1043f1fd06cee8f9259fab4993d7c3b86bfe687e17cd09ce1fd41bb84eeea64729b35d3667f59d0546168483d09f1e645e35405383fe5ef10cbfe370833662108cebb9c22ad4389717bb718d2abc44350b8a203b40f017283571016f58a955ed4fa27f73f6cbd45e1271efe1007b7cbed271e22664bb4b4da791b1f8af20f5d17ccfde91df67e080e9053c5a3685e6dd480b66bbb8a8a41c39b37391e2ec942646de8f1eacf1d7b7367b0e44ff12d2ea928407c9fc8691c4d203226000f5b51efa99726f21eea3c078118c85c838aac3614db49849d1eac28607139071735d696203742096ddb2b56ac47d4bf0510c842f15ffe9fc986a4b90206afd8d');


--
-- Data for Name: request_log; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.request_log VALUES (1, '2026-11-23 06:02:58.178028+00', '8c9153e8424efc088e2f898c', 'production', 'crm', 'valid', 'GET', '127.0.0.1', '/things/1', 200, 3.996, 0, 533, NULL);
INSERT INTO public.request_log VALUES (2, '2026-11-23 06:02:58.183065+00', '573b31852bbb3939228b1ef1', 'production', 'mail', 'mail', 'GET', '127.0.0.1', '/things/1', 200, 3.846, 0, 534, NULL);
INSERT INTO public.request_log VALUES (3, '2026-11-23 06:02:58.194331+00', '16f8ace8b0fd285b90759cf9', 'production', 'crm', 'nobody', 'GET', '', '/proxy/things/1', 404, 9.779, 0, 827, 'unknown_connection');
INSERT INTO public.request_log VALUES (4, '2026-11-23 06:03:03.884156+00', '9ed4106b6fcaf06061d1597f', 'production', 'crm', 'valid', 'GET', '127.0.0.1', '/things/1', 200, 8.242, 0, 613, NULL);
INSERT INTO public.request_log VALUES (5, '2026-11-23 06:03:03.887772+00', 'a3b966cc3d5693e0d20945b5', 'production', 'crm', 'valid', 'GET', '127.0.0.1', '/things/1', 200, 2.528, 0, 530, NULL);


--
-- Data for Name: signing_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.signing_keys VALUES ('06054ffa622f4a568875bfb0301eaa47', 'production', 1, '\x018975a7081f2e1c24513b140391b6aa7f11baa84c6e0ec43f896be406ce1fd8a59e24bdc7dccb7630960709a8f33e66b62bec0b5694287820f26125f72bd915bf308e39916d040ff7fb76ff61d98ef602f8db43f6682d1a10df0d188e6e832f7c', '2026-11-23 06:02:57.788232+00', '2026-11-24 06:03:05.512868+00');
INSERT INTO public.signing_keys VALUES ('d178e1338653479bab392c0047bc3a6d', 'production', 2, '\x018975a7081f2e1c24b313e37f6b7d611097aa7cdf6815b59ffe818608e8881ef2b1b75faab835daad333f778a74f19e559a0e472d4eb9d02d2e673e14e8349fdc789a55da611764e5d71625b788ca5e13362620a851c57eb347aece46c11d1f20', '2026-11-23 06:03:05.512868+00', NULL);


--
-- Data for Name: task_leases; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: timelines; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.timelines VALUES ('00000001', '2026-11-23 06:02:57.540391+00');


--
-- Data for Name: webhooks_seen; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.webhooks_seen VALUES ('production/crm/d7731313d1f78b005047fbf93b7e3bf8ea3d4314e112e81196add6e1d70472fb', '2026-11-23 06:03:04.013839+00');


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


