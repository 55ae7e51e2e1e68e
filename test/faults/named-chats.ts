import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { tenantsOf } from '../support/fleet.ts'
import { type LarkwayOptions, startLarkway } from '../support/larkway.ts'

/** Answers a chat as a provider does, and closes: each call needs a new connection. */
export function answerChat(request: IncomingMessage, response: ServerResponse): void {
  const message = { role: 'assistant', content: 'good' }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  request.resume().on('end', () => {
    response.writeHead(200, { 'content-type': 'application/json', connection: 'close' })
    response.end(JSON.stringify({ id: 'c', object: 'chat.completion', choices, usage }))
  })
}

/**
 * Starts the product with providers of chats that are known by name: each is `<its name>.test`, at that port.
 *
 * @param routes by workspace, the providers of its route in order
 * @returns makes a call of a workspace
 */
export async function startNamedChats(
  t: Test,
  port: number,
  routes: Readonly<Record<string, readonly string[]>>,
  options: Pick<LarkwayOptions, 'node'> = {},
) {
  const price = { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1 }
  const terms = { credits_usd: 1_000, grant_id: 'first' }
  const account = (name: string) => ({
    kind: 'openai-compatible',
    access: 'platform',
    base_url: `http://${name}.test:${port}/v1`,
    capabilities: ['text'],
  })
  const entry = (provider: string) => ({ provider, model: 'gpt-4o-mini', price })
  const names = new Set(Object.values(routes).flat())
  const tenants = tenantsOf({
    providers: Object.fromEntries([...names].map((name) => [name, account(name)])),
    workspaces: Object.fromEntries(
      Object.entries(routes).map(([name, providers]) => [name, { entries: providers.map(entry), terms }]),
    ),
  })
  const { url } = await startLarkway(t, { ...options, config: tenants.config })
  return async (workspace: string) => {
    const beganMs = performance.now()
    const response = await fetch(`${url}/v1/chat`, {
      method: 'POST',
      headers: { authorization: tenants.authorizationOf(workspace), 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] }),
    })
    await response.arrayBuffer()
    return { status: response.status, tookMs: performance.now() - beganMs }
  }
}
