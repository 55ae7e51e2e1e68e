import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../../src/sandbox/server.ts'
import { startGateway } from '../../support/gateway.ts'
import { framesOf, liveAudio, timesOff } from '../../support/live-audio.ts'
import { LiveClient } from '../../support/live-client.ts'

// The whole way: a caller's socket, the gateway, and providers that hear real Morse code in the audio and die on order.

const AUDIO = liveAudio('alpha bravo charlie', { speed: 2 })
const TEXT = AUDIO.words.map(({ word }) => word).join(' ')
/** In the gap behind the first word, where the vendor has told it already. */
const GAP_MS = Math.round((AUDIO.words[0]!.end + 0.15) * 1000)

interface Row {
  readonly name: string
  /** Of the first entry, and what it is ordered to do; the second one is sound. */
  readonly kind: 'sandbox' | 'deepgram' | 'openai'
  readonly faults: string
  /** Switches in the middle of the audio; null: any number. */
  readonly switches: number | null
}

const MODELS = { sandbox: 'morse-1', deepgram: 'nova-3', openai: 'gpt-live-transcribe' }

const ROWS: readonly Row[] = [
  { name: 'sound', kind: 'sandbox', faults: '', switches: 0 },
  { name: 'sound', kind: 'deepgram', faults: '', switches: 0 },
  { name: 'sound', kind: 'openai', faults: '', switches: 0 },
  ...(['sandbox', 'deepgram', 'openai'] as const).flatMap((kind): Row[] => [
    { name: 'reset in the middle of a word', kind, faults: 'reset-in-word=2', switches: 1 },
    { name: '1011', kind, faults: `close-after-ms=${GAP_MS}`, switches: 1 },
    { name: 'silence', kind, faults: `silent-after-ms=${GAP_MS}`, switches: 1 },
    { name: 'a handshake refused', kind, faults: 'status=503', switches: null },
    { name: 'a connection refused', kind, faults: 'refuse=true', switches: null },
  ]),
]

const nameOf = ({ kind, name }: Row, at: number) => `${kind}-${name.replaceAll(/\W/g, '-')}-${at}`

async function startRoutes(t: Test) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const origin = sandbox.url.replace('/v1', '')
  const base = ({ kind, faults }: Row) =>
    `${origin}${faults === '' ? '' : `/x-sandbox/${faults}`}${kind === 'deepgram' ? '' : '/v1'}`
  const keys = ROWS.map(() => makeKey())
  const names = ROWS.map(nameOf)
  const each = <T>(make: (row: Row, at: number) => T) =>
    Object.fromEntries(ROWS.map((row, at) => [names[at], make(row, at)]))
  const { url } = await startGateway(t, {
    env: { UPSTREAM_KEY: 'any' },
    config: {
      providers: {
        sound: { kind: 'sandbox', access: 'platform', base_url: sandbox.url },
        ...each((row) => ({
          kind: row.kind,
          access: 'platform',
          base_url: base(row),
          ...(row.kind === 'sandbox' ? {} : { api_key: `\${UPSTREAM_KEY}` }),
        })),
      },
      routes: each((row, at) => ({
        workspace: 'acme',
        entries: [
          { provider: names[at], model: MODELS[row.kind] },
          { provider: 'sound', model: 'morse-1' },
        ],
      })),
      workspaces: {
        acme: {
          credits_usd: 100,
          grant_id: 'initial',
          apps: each((_, at) => ({ route: names[at] })),
          keys: ROWS.map((_, at) => ({
            id: `key_${at}`,
            app: names[at],
            sha256: hashKey(keys[at]!),
            scopes: ['inference'],
          })),
        },
      },
    },
  })
  return { url: url.replace('http', 'ws'), keys }
}

interface Final {
  readonly segment: { readonly text: string }
  readonly words?: readonly { readonly word: string; readonly start: number; readonly end: number }[]
}

/** Streams the audio at real time, and reads to the end of the session. */
async function speak(url: string, key: string, { kind }: Row): Promise<LiveClient> {
  const wanted = kind === 'openai' ? '' : '&timestamps=word'
  const client = new LiveClient(`${url}/v1/transcription/stream?sample_rate=16000${wanted}`, ['larkway.v1'], {
    headers: { authorization: `Bearer ${key}` },
  })
  await client.open()
  const startMs = performance.now()
  let frames = 0
  for (const frame of framesOf(AUDIO, 100)) {
    frames += 1
    client.send(frame)
    await sleep(Math.max(0, startMs + frames * 100 - performance.now()))
  }
  client.send({ type: 'end' })
  await client.ended
  return client
}

t.test(
  'every word once, in order and in time, whatever a provider dies of',
  { timeout: 120_000 },
  async (t) => {
    const { url, keys } = await startRoutes(t)
    const sessions = await Promise.all(ROWS.map((row, at) => speak(url, keys[at]!, row)))
    for (const [at, row] of ROWS.entries()) {
      const [client, name] = [sessions[at]!, nameOf(row, at)]
      const finals = client.ofType('final') as unknown as Final[]
      t.match(await client.ended, { code: 1000 }, name)
      t.equal(finals.map(({ segment }) => segment.text).join(' '), TEXT, name)
      t.match(client.messages.at(-1), { type: 'done', content: TEXT }, name)
      const switched = client.ofType('switched')
      if (row.switches !== null) t.equal(switched.length, row.switches, name)
      t.ok(
        switched.every(({ lost_seconds }) => lost_seconds === 0),
        `${name}: nothing is lost`,
      )
      if (row.kind === 'openai') continue
      const off = timesOff(
        finals.flatMap(({ words = [] }) => words),
        AUDIO.words,
      )
      t.ok(off <= 0.05, `${name}: times are ${off} s off`)
    }
  },
)
