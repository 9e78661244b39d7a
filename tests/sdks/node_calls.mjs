// Calls every method of the published back-end SDK that is in scope, and prints what each one gave, as one JSON object.
// Given on stdin: {sdk, host, key, integration, connection, cloudId}. test_node_sdk.py looks at what came.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const given = JSON.parse(readFileSync(0, 'utf8'));
const { Nango } = createRequire(given.sdk + '/')('@nangohq/node');
const nango = new Nango({ host: given.host, secretKey: given.key });
const told = {};

async function call(name, work) {
    try {
        told[name] = { value: await work() };
    } catch (fault) {
        const response = fault.response;
        told[name] = { failed: response ? { status: response.status, data: response.data, headers: { ...response.headers } } : String(fault) };
    }
}

// Some methods return the HTTP client's own response.
const parts = (response) => ({ status: response.status, data: response.data });

const { integration, connection } = given;
const here = { providerConfigKey: integration, connectionId: connection };
const root = `/ex/sandbox/${given.cloudId}/rest/api/3`;
const at = (path, more) => ({ endpoint: path, ...here, ...more });
const client = { type: 'OAUTH2', client_id: 'sdk', client_secret: 'sdk-secret', scopes: 'a,b' };

await call('listProviders', () => nango.listProviders({ search: 'sandbox' }));
await call('listAllProviders', () => nango.listProviders({}));
await call('getProvider', () => nango.getProvider({ provider: 'sandbox' }));
await call('getUnknownProvider', () => nango.getProvider({ provider: 'nowhere' }));

await call('listIntegrations', () => nango.listIntegrations());
await call('createIntegration', () => nango.createIntegration({ provider: 'sandbox', unique_key: 'sdk', display_name: 'SDK', credentials: client }));
await call('createIntegrationAgain', () => nango.createIntegration({ provider: 'sandbox', unique_key: 'sdk', credentials: client }));
await call('getIntegration', () => nango.getIntegration({ uniqueKey: 'sdk' }, { include: ['credentials'] }));
await call('getIntegrationWebhook', () => nango.getIntegration({ uniqueKey: integration }, { include: ['webhook'] }));
await call('updateIntegration', () => nango.updateIntegration({ uniqueKey: 'sdk' }, { display_name: 'Renamed', unique_key: 'sdk-2' }));
await call('updateDeclaredIntegration', () => nango.updateIntegration({ uniqueKey: integration }, { display_name: 'x' }));
await call('deleteIntegration', async () => parts(await nango.deleteIntegration('sdk-2')));
await call('getDeletedIntegration', () => nango.getIntegration({ uniqueKey: 'sdk-2' }));

await call('patchConnection', () => nango.patchConnection({ connectionId: connection, provider_config_key: integration }, { end_user: { id: 'u-sdk', email: 'sdk@example.com', display_name: 'Una' }, tags: { Team: 'b a' } }));
await call('listConnections', () => nango.listConnections());
await call('listConnectionsById', () => nango.listConnections(connection));
await call('listConnectionsBySearch', () => nango.listConnections(undefined, 'SDK@EXAMPLE', { endUserId: 'u-sdk', limit: 1 }));
await call('listConnectionsByTags', () => nango.listConnections({ userId: 'u-sdk', integrationId: [integration, 'other'], tags: { displayName: 'Una', email: 'sdk@example.com', team: 'b a' } }));
await call('listConnectionsOfNobody', () => nango.listConnections({ userId: 'nobody' }));
await call('waitForConnection', () => nango.waitForConnection(integration, 'u-sdk'));
await call('getConnection', () => nango.getConnection(integration, connection));
await call('getConnectionRefreshed', () => nango.getConnection(integration, connection, true, true));
await call('getUnknownConnection', () => nango.getConnection(integration, 'nobody'));
await call('getToken', () => nango.getToken(integration, connection));
await call('getRawTokenResponse', () => nango.getRawTokenResponse(integration, connection));
await call('setMetadata', async () => parts(await nango.setMetadata(integration, connection, { plan: 'free', seats: 1 })));
await call('updateMetadata', async () => parts(await nango.updateMetadata(integration, [connection], { plan: 'pro' })));
await call('getMetadata', () => nango.getMetadata(integration, connection));
await call('setMetadataOfUnknown', () => nango.setMetadata(integration, [connection, 'nobody'], { plan: 'lost' }));
await call('getMetadataAgain', () => nango.getMetadata(integration, connection));

await call('createConnectSession', () => nango.createConnectSession({ end_user: { id: 'u-sdk' }, allowed_integrations: [integration] }));
await call('createConnectSessionForUnknown', () => nango.createConnectSession({ end_user: { id: 'u-sdk' }, allowed_integrations: ['nowhere'] }));
await call('createReconnectSession', () => nango.createReconnectSession({ connection_id: connection, integration_id: integration }));
await call('getEnvironmentVariables', () => nango.getEnvironmentVariables());

await call('get', async () => parts(await nango.get(at(`${root}/search`, { params: { maxResults: 1 } }))));
await call('getWithQuery', async () => parts(await nango.get(at(`${root}/search?maxResults=2`))));
await call('proxy', async () => parts(await nango.proxy(at(`${root}/myself`, { method: 'GET', retries: 2, decompress: true }))));
await call('post', async () => parts(await nango.post(at(`${root}/search`, { data: { maxResults: 1, jql: '' } }))));
await call('put', async () => parts(await nango.put(at('/streams/upload', { data: { a: 'b' } }))));
await call('putForm', async () => parts(await nango.put(at('/streams/upload', { data: { a: '1' }, headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }))));
await call('patch', async () => parts(await nango.patch(at(`${root}/myself`, { data: { a: 'b' } }))));
await call('delete', async () => parts(await nango.delete(at('/sandbox/faults'))));
await call('stream', async () => {
    const response = await nango.get(at('/streams/download', { params: { bytes: 100000 }, responseType: 'arraybuffer' }));
    return { status: response.status, bytes: response.data.length };
});
await call('proxyToUnknownConnection', () => nango.get({ endpoint: '/x', providerConfigKey: integration, connectionId: 'nobody' }));
await call('proxyFromConstructor', async () => {
    const bound = new Nango({ host: `${given.host}/`, secretKey: given.key, ...here });
    return parts(await bound.get({ endpoint: `${root}/myself` }));
});
await call('withWrongKey', () => new Nango({ host: given.host, secretKey: 'nobody-knows-this-one' }).listIntegrations());

await call('deleteConnection', async () => parts(await nango.deleteConnection(integration, connection)));
await call('deleteConnectionAgain', async () => parts(await nango.deleteConnection(integration, connection)));

process.stdout.write(JSON.stringify(told));
