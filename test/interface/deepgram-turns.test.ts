import { setTimeout as sleep } from 'node:timers/promises'
import { DeepgramClient } from '@deepgram/sdk'
import t, { type Test } from 'tap'
import { framesOf } from '../support/live-audio.ts'
import { refusedHandshake } from '../support/live-client.ts'
import { flux } from '../support/live-deepgram-flux.ts'
import { JUDGED_AUDIO, JUDGED_TEXT } from '../support/live-judged.ts'
import { serveVendor } from '../support/live-vendor.ts'
import { secret, startRouteGateway } from '../support/route-gateway.ts'

const RAW = { model: 'flux-general-en', encoding: 'linear16', sample_rate: 16_000 } as const

async function start(t: Test, model: string) {
  const vendor = await serveVendor(t, flux('vendor-key'))
  const gateway = await startRouteGateway(t, {
    providers: { deepgram: { kind: 'deepgram', base_url: vendor.origin, api_key: secret('DG_KEY') } },
    entries: [{ provider: 'deepgram', model }],
    env: { DG_KEY: 'vendor-key' },
  })
  return { vendor, gateway, url: gateway.url.replace('http:', 'ws:') }
}

interface Told {
  readonly type: string
  readonly event?: string
  readonly transcript?: string
  readonly [name: string]: unknown
}

t.test("Deepgram's client is told the turns of a session", { timeout: 60_000 }, async (t) => {
  const { vendor, gateway, url } = await start(t, 'flux-general-en')
  const client = new DeepgramClient({ apiKey: gateway.key, baseUrl: `${url}/deepgram` })
  const options = { ...RAW, keyterm: ['lark'], eot_timeout_ms: 2000, numerals: 'true', tag: 'night' }
  const socket = await client.listen.v2.connect({ ...options, reconnectAttempts: 0 } as never)
  const told: Told[] = []
  const closed = new Promise<number>((resolve) => socket.on('close', ({ code }) => resolve(code ?? 0)))
  socket.on('message', (message) => void told.push(message as never))
  socket.on('error', () => {})
  t.teardown(() => socket.close())
  socket.connect()
  await socket.waitForOpen()
  socket.sendConfigure({ type: 'Configure', keyterms: ['way'] })
  const events = (event: string) => told.filter((one) => one.event === event)
  const until = async (event: string, count: number) => {
    while (events(event).length < count) await sleep(10)
  }
  for (const frame of framesOf(JUDGED_AUDIO, 100)) {
    socket.sendMedia(frame)
    await sleep(60)
  }
  await until('EndOfTurn', 2)
  socket.sendCloseStream({ type: 'CloseStream' })
  t.equal(await closed, 1000)

  t.match(told[0], { type: 'Connected', sequence_id: 0, request_id: /^[0-9a-f-]{36}$/ })
  t.same(
    told.map(({ sequence_id: id }) => id),
    told.map((_, at) => at),
    'every message is counted',
  )
  t.ok(
    told.some(({ type }) => type === 'ConfigureFailure'),
    'a session stays as it was opened',
  )
  const order = told.flatMap(({ event, turn_index: turn }) =>
    event === undefined ? [] : [`${event} ${turn}`],
  )
  const changes = order.filter((one) => !one.startsWith('Update'))
  t.same(changes, ['StartOfTurn 0', 'EndOfTurn 0', 'StartOfTurn 1', 'EndOfTurn 1'])
  t.equal(
    events('EndOfTurn')
      .map(({ transcript }) => transcript)
      .join(' ')
      .toLowerCase(),
    JUDGED_TEXT,
  )
  const [first] = events('EndOfTurn') as unknown as readonly { words: { start: number; end: number }[] }[]
  t.match(first, { trigger: 'model', end_of_turn_confidence: 1, audio_window_start: Number })
  for (const [at, { start }] of (first?.words ?? []).entries())
    t.ok(Math.abs(start - JUDGED_AUDIO.words[at]!.start) < 0.05, 'times of words')

  const { query } = vendor.sessions[0]!.handshake
  t.same(
    ['model', 'keyterm', 'eot_timeout_ms', 'numerals', 'tag'].map((name) => query.get(name)),
    ['flux-general-en', 'lark', '2000', 'true', null],
  )
  t.same(vendor.sessions[0]!.refused, [])
})

t.test('ForceEndTurn ends a turn', { timeout: 60_000 }, async (t) => {
  const { gateway, url } = await start(t, 'flux-general-en')
  const client = new DeepgramClient({ apiKey: gateway.key, baseUrl: `${url}/deepgram` })
  const socket = await client.listen.v2.connect({ ...RAW, eot_threshold: 1, reconnectAttempts: 0 } as never)
  const told: Told[] = []
  socket.on('message', (message) => void told.push(message as never))
  t.teardown(() => socket.close())
  socket.connect()
  await socket.waitForOpen()
  const { pcm } = JUDGED_AUDIO
  const upTo = Math.ceil((JUDGED_AUDIO.words[2]!.end + 1.5) * 10) * 3200
  for (let at = 0; at < upTo; at += 3200) {
    socket.sendMedia(pcm.subarray(at, at + 3200))
    await sleep(60)
  }
  while (!told.some(({ transcript }) => transcript?.toLowerCase() === 'see the sea')) await sleep(10)
  t.notOk(
    told.some(({ event }) => event === 'EndOfTurn'),
    'none ends by itself',
  )
  socket.sendForceEndTurn({ type: 'ForceEndTurn' })
  while (!told.some(({ event }) => event === 'EndOfTurn')) await sleep(10)
  t.match(told.at(-1), { event: 'EndOfTurn', trigger: 'manual', transcript: /^see the sea$/i })
})

t.test('what it does not keep is refused', async (t) => {
  const { gateway, url } = await start(t, 'nova-3')
  const headers = { authorization: `Token ${gateway.key}` }
  const ask = (more: Readonly<Record<string, string>>) => {
    const query = new URLSearchParams({ ...RAW, sample_rate: '16000', ...more })
    return refusedHandshake(`${url}/deepgram/v2/listen?${query}`, [], { headers })
  }
  const unheard = await ask({})
  t.equal(unheard.status, 422, 'nova tells no turns')
  t.match(unheard.headers, { 'dg-request-id': /^[0-9a-f-]{36}$/, 'dg-error': /: .*turns$/ })
  for (const [name, value] of Object.entries({
    ...{ encoding: 'opus', eager_eot_threshold: '0.4', eot_timeout_ms: '60', eot_threshold: '0.2' },
    ...{ redact: 'pii', language_hint: 'de', interim_results: 'true' },
  })) {
    const { status, headers: told } = await ask({ [name]: value })
    t.equal(status, 400, name)
    t.match(told['dg-error'], `\`${name}\``)
  }
})
