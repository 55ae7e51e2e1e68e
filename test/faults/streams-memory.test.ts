import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { startFleet } from '../support/fleet.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { waitUntil } from '../support/wait-until.ts'

const MEMORY_MIB = 16
/** Text of each stream, all at once: a mebibyte, and then nothing until the test lets them end. */
const TEXT = 'x'.repeat(1024 * 1024)
const STREAMS = 40

/** Answers in OpenAI's format: a whole chat, or a stream that keeps its caller waiting for the end. */
async function startUpstream(t: Test) {
  const open = new Set<ServerResponse>()
  const server = createServer(async (asked, response) => {
    let body = ''
    for await (const chunk of asked) if (body.length < 200) body += String(chunk)
    if (!body.includes('"stream":true')) {
      const message = { role: 'assistant', content: 'ok' }
      return void response.end(JSON.stringify({ choices: [{ index: 0, finish_reason: 'stop', message }] }))
    }
    open.add(response.setHeader('content-type', 'text/event-stream'))
    response.on('close', () => open.delete(response))
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: TEXT } }] })}\n\n`)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, open }
}

t.test('streams of one workspace leave memory to others, and what was held comes back', async (t) => {
  const upstream = await startUpstream(t)
  const provider = (name: string) => ({
    [name]: { kind: 'sandbox', access: 'byok', workspace: name, base_url: upstream.url },
  })
  const workspace = (name: string) => ({ [name]: { entries: [{ provider: name, model: 'morse-1' }] } })
  const fleet = await startFleet(t, {
    env: { LARKWAY_MEMORY_MIB: String(MEMORY_MIB), LARKWAY_LOG: 'warn' },
    providers: { ...provider('streaming'), ...provider('other') },
    workspaces: { ...workspace('streaming'), ...workspace('other') },
  })
  const gateway = fleet.node()
  const chat = (name: string, body: object, signal: AbortSignal | null = null) =>
    fetch(`${gateway.url}/v1/chat`, {
      method: 'POST',
      headers: { authorization: fleet.authorizationOf(name), 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    })
  const long = { messages: [{ role: 'user', content: 'y'.repeat(1024 * 1024) }] }
  t.equal((await chat('other', long)).status, 200, 'it wants memory, too')

  const left = new AbortController()
  const statuses: number[] = []
  for (let index = 0; index < STREAMS; index += 1) {
    const asked = chat(
      'streaming',
      { stream: true, messages: [{ role: 'user', content: 'on' }] },
      left.signal,
    )
    const read = asked.then(async (answer) => {
      statuses.push(answer.status)
      for await (const _ of answer.body ?? []) if (left.signal.aborted) break
    })
    read.catch(() => {})
  }
  t.ok(await waitUntil(() => statuses.length === STREAMS, 30_000), 'each is answered')
  const count = (status: number) => statuses.filter((one) => one === status).length
  t.ok(count(200) > 0, `${statuses}`)
  t.ok(count(503) >= STREAMS - MEMORY_MIB, `no more are read than fit: ${statuses}`)
  for (let index = 0; index < 8; index += 1) t.equal((await chat('other', long)).status, 200)
  left.abort()
  t.ok(await waitUntil(() => upstream.open.size === 0, 30_000), 'none is left at the provider')
  await assertStopsClean(t, gateway)
})
