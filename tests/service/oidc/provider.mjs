// An OpenID provider for tests: the certified package oidc-provider, with a few clients. Its login page takes any
// password, and names state groups: "ann:operators:press" is ann, in two groups.
//
// node provider.mjs PACKAGES PORT SERVICE CLAIMS; PACKAGES is the folder of node_modules, SERVICE the address of cgsa,
// and CLAIMS says where names and groups are: in the "id_token" or in the answer of "userinfo".
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [packages, port, service, claims] = process.argv.slice(2);
const found = createRequire(`${packages}/`).resolve('oidc-provider');
const { default: Provider } = await import(pathToFileURL(found).href);

const shared = {
  redirect_uris: [`${service}/login/oidc/callback`],
  post_logout_redirect_uris: [`${service}/login`],
};
const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    { client_id: 'confidential', client_secret: 'a secret: 100 % & more', ...shared },
    { client_id: 'public', token_endpoint_auth_method: 'none', ...shared },
    { client_id: 'elliptic', client_secret: 'a secret: 100 % & more', id_token_signed_response_alg: 'ES256', ...shared },
  ],
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
  conformIdTokenClaims: claims === 'userinfo',
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id.split(':')[0], groups: id.split(':').slice(1) }),
  }),
  cookies: { keys: ['a key for tests'] },
  features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256'] },
  jwks: { keys: JSON.parse(process.env.PROVIDER_KEYS) },
  pkce: { required: () => true },
});
createServer(provider.callback()).listen(Number(port), '127.0.0.1', () => console.log('listening'));
