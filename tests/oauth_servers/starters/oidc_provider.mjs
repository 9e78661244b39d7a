// oidc-provider with one client and its own development pages for login and consent. Configuration: JSON in argv[2].
import { createServer } from "node:http";
import Provider from "oidc-provider";

const { client_id, client_secret, redirect_uri, ttl_s } = JSON.parse(process.argv[2]);

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(url, {
    clients: [
      {
        client_id,
        client_secret,
        redirect_uris: [redirect_uri],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "client_secret_basic",
      },
    ],
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id, groups: ["platform"] }) }),
    claims: { openid: ["sub"], groups: ["groups"] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    rotateRefreshToken: true,
    features: { introspection: { enabled: true }, revocation: { enabled: true } },
    ttl: { AccessToken: ttl_s },
  });
  server.on("request", provider.callback());
  console.log(`ready on ${url}`);
});
