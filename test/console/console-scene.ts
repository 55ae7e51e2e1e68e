import type { ConsoleNode, Visitor } from '../support/console-node.ts'
import { melody, wav } from '../support/tone.ts'
import { waitUntil } from '../support/wait-until.ts'

/** Fills the workspace `acme` with something for every view: routes, a draft, keys, calls, jobs and settings. */
export async function setScene(node: ConsoleNode): Promise<Visitor> {
  const operator = await node.signIn(node.keys.operator)
  const put = async (path: string, body: unknown) => ok(await operator.put(`/workspaces/acme${path}`, body))
  const post = async (path: string, body: unknown) => ok(await operator.post(`/workspaces/acme${path}`, body))
  const sandbox = { kind: 'sandbox', base_url: `${node.sandboxOrigin}/v1` }
  await put('/providers/acme.ears', sandbox)
  await put('/providers/acme.weak', sandbox)
  const entry = (provider: string, more = {}) => ({ provider, model: 'morse-1', ...more })
  const routes = {
    'acme.voice': [entry('acme.weak', { options: { status: 503 } }), entry('acme.ears')],
    'acme.broken': [entry('acme.weak', { options: { status: 500 } })],
    'acme.notes': [entry('acme.ears', { purposes: ['notes'] }), entry('acme-own', { pinned: true })],
  }
  for (const [name, entries] of Object.entries(routes)) {
    const fields = { workspace: 'acme', entries }
    const drafted = await put(`/routes/${name}/draft`, { fields, revision: null })
    const { revision } = drafted.draft as { revision: number }
    await post(`/routes/${name}/publish`, { revision })
  }
  const changed = {
    workspace: 'acme',
    strategy: 'lowest_latency',
    entries: routes['acme.voice'].toReversed(),
  }
  await put('/routes/acme.voice/draft', { fields: changed, revision: null })
  const faulty = { workspace: 'acme', entries: [entry('acme.gone')] }
  await put('/routes/acme.next/draft', { fields: faulty, revision: null })
  await put('/apps/phone', { route: 'acme.voice', purposes: { notes: 'acme.notes' } })
  await put('/apps/lab', { route: 'acme.broken' })
  await put('/purposes/calls', { description: 'calls of the hotline', enabled: false })
  await put('/content', { shown: true })
  const made = await post('/keys', { name: 'phone', app: 'phone', budget_usd_per_month: 2 })
  const lab = await post('/keys', {
    name: 'lab',
    app: 'lab',
    rate_limit: { requests_per_minute: 60, burst: 5 },
  })
  const old = await post('/keys', { name: 'old', app: 'phone', expires_at: '2099-01-01T00:00:00Z' })
  ok(await operator.delete(`/workspaces/acme/keys/${old.id}`))
  await put('/audio-url-domains', { domains: ['media.example.com', '*.calls.example.org'] })
  await makeCalls(node, String(made.key), String(lab.key))
  return operator
}

async function makeCalls({ url }: ConsoleNode, good: string, bad: string): Promise<void> {
  const send = (path: string, key: string, body: Buffer | string, type: string) =>
    fetch(url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': type },
      body: new Uint8Array(Buffer.from(body)),
    })
  const audio = wav([melody(2, 16_000)], 16_000)
  const isKnown = async () => (await send('/v1/transcription', good, audio, 'audio/wav')).status !== 401
  await waitUntil(isKnown)
  for (let round = 0; round < 3; round += 1) {
    await send('/v1/transcription', good, audio, 'audio/wav')
    await send('/v1/transcription', bad, audio, 'audio/wav')
    await send('/v1/speech', good, JSON.stringify({ input: 'so it is said' }), 'application/json')
    await send('/v1/transcription/jobs', round === 0 ? bad : good, audio, 'audio/wav')
  }
}

function ok({ status, text, body }: Awaited<ReturnType<Visitor['get']>>): Readonly<Record<string, unknown>> {
  if (status >= 300) throw new Error(`${status} ${text}`)
  return body
}
