// Published MCP clients of npm against the MCP endpoint: `node agent_calls.mjs CLIENT URL KEY`. Prints what agent_calls.py prints.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [client, url, key] = process.argv.slice(2)
const headers = { Authorization: `Bearer ${key}` }
const require = createRequire(`${process.cwd()}/here.js`)
const load = async (name) => import(pathToFileURL(require.resolve(name)).href)
const calls = [
  ['search_issues', { query: { q: 'x' } }],
  ['call_api', { method: 'DELETE', path: '/issue/1' }],
  ['get_me', {}],
]

function shown(result) {
  const text = (result.content ?? []).filter((one) => one.type === 'text').map((one) => one.text)
  return { error: result.isError === true, text: text.join('\n'), structured: result.structuredContent ?? null }
}

async function tried(call) {
  try {
    return shown(await call())
  } catch (fault) {
    return { error: true, text: `${fault.message} ${JSON.stringify(fault.data ?? null)}`, structured: null }
  }
}

const asked = []
let tools
const results = []
if (client === '@ai-sdk/mcp') {
  const { createMCPClient } = await load('@ai-sdk/mcp')
  const made = await createMCPClient({ transport: { type: 'http', url, headers } })
  tools = (await made.listTools()).tools.map((one) => one.name)
  for (const [name, args] of calls) results.push(await tried(() => made.callTool({ name, arguments: args })))
  await made.close()
} else {
  const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client')
  const about = { capabilities: { elicitation: { url: {} } } }
  const made = new Client({ name: 'test', version: '1' }, about)
  made.setRequestHandler('elicitation/create', async (request) => {
    asked.push(request.params.url)
    return { action: 'decline' }
  })
  await made.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
  tools = (await made.listTools()).tools.map((one) => one.name)
  for (const [name, args] of calls) results.push(await tried(() => made.callTool({ name, arguments: args })))
  await made.close()
}
console.log(JSON.stringify({ tools, asked, results }))
