import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { startFleet } from '../support/fleet.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { serveHttp } from '../support/http-server.ts'
import { waitUntil } from '../support/wait-until.ts'

const MEMORY_MIB = 16
/** Text of each stream, all at once: a mebibyte, and then nothing until the test lets them end. */
const TEXT = 'x'.repeat(1024 * 1024)
const CALLS = 40

/** Answers in OpenAI's format: a chat, whole or the most of a large one, or a stream that has yet to end. */
async function startUpstream(t: Test) {
  /** Answers that have yet to end. */
  const open = new Set<ServerResponse>()
  const url = await serveHttp(t, async (asked, response) => {
    let body = ''
    for await (const chunk of asked) if (body.length < 200) body += String(chunk)
    const isLarge = body.includes('much')
    const message = { role: 'assistant', content: isLarge ? TEXT.repeat(4) : 'ok' }
    const whole = JSON.stringify({ choices: [{ index: 0, finish_reason: 'stop', message }] })
    const isStream = body.includes('"stream":true')
    if (!isStream && !isLarge) return void response.end(whole)
    open.add(response)
    response.on('close', () => open.delete(response))
    if (!isStream) return void response.write(whole.slice(0, -1))
    response.setHeader('content-type', 'text/event-stream')
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: TEXT } }] })}\n\n`)
  })
  return { url: `${url}/v1`, open }
}

async function startRig(t: Test) {
  const upstream = await startUpstream(t)
  const provider = (name: string) => ({
    [name]: { kind: 'sandbox', access: 'byok', workspace: name, base_url: upstream.url },
  })
  const workspace = (name: string) => ({ [name]: { entries: [{ provider: name, model: 'morse-1' }] } })
  const fleet = await startFleet(t, {
    env: { LARKWAY_MEMORY_MIB: String(MEMORY_MIB), LARKWAY_LOG: 'warn' },
    providers: { ...provider('greedy'), ...provider('other') },
    workspaces: { ...workspace('greedy'), ...workspace('other') },
  })
  const gateway = fleet.node()
  const chat = (
    name: string,
    text: string,
    more: { readonly stream?: true; readonly signal?: AbortSignal } = {},
  ) => {
    const { signal = null, ...options } = more
    return fetch(`${gateway.url}/v1/chat`, {
      method: 'POST',
      headers: { authorization: fleet.authorizationOf(name), 'content-type': 'application/json' },
      body: JSON.stringify({ ...options, messages: [{ role: 'user', content: text }] }),
      signal,
    })
  }
  return { upstream, gateway, chat }
}

/** Calls of one workspace whose answers do not end, and of the other one beside them. */
async function judge(t: Test, stream: boolean, fit: number) {
  const { upstream, gateway, chat } = await startRig(t)
  const long = 'y'.repeat(1024 * 1024)
  t.equal((await chat('other', long)).status, 200, 'it wants memory, too')
  const before = await gateway.peakRssMiB()
  const left = new AbortController()
  const statuses: number[] = []
  for (let index = 0; index < CALLS; index += 1) {
    const options = { ...(stream ? { stream } : {}), signal: left.signal } as const
    const read = chat('greedy', 'much', options).then(async (answer) => {
      statuses.push(answer.status)
      for await (const _ of answer.body ?? []) if (left.signal.aborted) break
    })
    read.catch(() => {})
  }
  const refused = () => statuses.filter((status) => status === 503).length
  t.ok(await waitUntil(() => refused() >= CALLS - fit, 30_000), `no more are read than fit: ${statuses}`)
  for (let index = 0; index < 8; index += 1) t.equal((await chat('other', long)).status, 200)
  t.comment(`peak memory ${before.toFixed()}, then ${(await gateway.peakRssMiB()).toFixed()} MiB`)
  left.abort()
  t.ok(await waitUntil(() => upstream.open.size === 0, 30_000), 'none is left at the provider')
  await assertStopsClean(t, gateway)
}

t.test('streams of one workspace leave memory to others', (t) => judge(t, true, MEMORY_MIB))
t.test('answers that a provider is slow to end leave memory to others', (t) =>
  judge(t, false, MEMORY_MIB / 2),
)
