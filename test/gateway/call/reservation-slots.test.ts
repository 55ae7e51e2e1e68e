import type { IncomingMessage, ServerResponse } from 'node:http'
import t from 'tap'
import type { AudioReader } from '../../../src/contracts/audio.ts'
import type { TranscriptionCall, TranscriptionResult } from '../../../src/contracts/calls.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { Operation, Provider, Step } from '../../../src/contracts/provider.ts'
import type { UpstreamReply } from '../../../src/contracts/upstream.ts'
import { classify } from '../../../src/gateway/providers/failure.ts'
import { audio, options } from '../../support/call.ts'
import { entryAt, gatewayRig, runIdempotent, upstream } from '../../support/gateway-rig.ts'

t.setTimeout(120_000)

const SLOT = 'ab'.repeat(32)
const DEADLINE_MS = 1_000
/** For calls that do not wait for theirs, however slow the machine is. */
const LONG_MS = 60_000
/** Ten seconds at 0.36 USD an hour. */
const COST = 1_000

/** Uploads, orders and looks, as AssemblyAI's protocol does, with looks fast enough for a test. */
const jobs: Operation<TranscriptionCall, TranscriptionResult> = {
  start: (call, { baseUrl }) => ({
    kind: 'send',
    request: {
      method: 'POST',
      url: `${baseUrl}/upload`,
      headers: {},
      body: [{ audio: call.audio, as: 'bytes' }],
    },
    state: 'upload',
  }),
  next(state, reply, _call, { baseUrl }): Step<TranscriptionResult> {
    if (reply.status !== 200) return { kind: 'failed', failure: classify(reply) }
    if (state === 'upload') {
      const request = { method: 'POST', url: `${baseUrl}/order`, headers: {}, body: [] } as const
      return { kind: 'send', request, state: 'order' }
    }
    const text = textOf(reply)
    if (text === 'failed')
      return { kind: 'failed', failure: classify({ status: 500, headers: reply.headers, body: reply.body }) }
    if (text !== 'running') return { kind: 'done', result: { ...NOTHING_HEARD, text } }
    const request = { method: 'GET', url: `${baseUrl}/look`, headers: {}, body: [] } as const
    return { kind: 'wait', waitMs: 10, request, state: 'look' }
  },
}
const broken: Operation<TranscriptionCall, TranscriptionResult> = {
  ...jobs,
  next() {
    throw new TypeError('a fault of the adapter')
  },
}
const PROVIDERS: readonly Provider[] = [
  { kind: 'jobs', baseUrl: null, needsCredential: false, transcription: jobs },
  { kind: 'broken', baseUrl: null, needsCredential: false, transcription: broken },
]

const NOTHING_HEARD: Omit<TranscriptionResult, 'text'> = {
  language: null,
  languageConfidence: null,
  durationSeconds: null,
  segments: [],
  words: [],
  warnings: [],
}

const textOf = ({ body }: UpstreamReply) => Buffer.concat(body).toString()

type Stage = 'upload' | 'order' | 'look'
type Answers = Readonly<Partial<Record<Stage, (response: ServerResponse) => unknown>>>

const says = (text: string) => (response: ServerResponse) => response.end(text)
const status = (code: number) => (response: ServerResponse) => response.writeHead(code).end('{}')
const breaks = (response: ServerResponse) => response.destroy()
const hangs = () => {}
const USUAL: Required<Answers> = { upload: says(''), order: says('running'), look: says('heard') }

const reader: AudioReader = {
  async *bytes() {
    yield Buffer.alloc(1_000)
  },
  base64: () => {
    throw new Error('not asked for')
  },
  range: () => Promise.reject(new Error('not asked for')),
}
const failingReader: AudioReader = {
  ...reader,
  async *bytes() {
    yield Buffer.alloc(10)
    throw new GatewayError('DEPENDENCY_UNAVAILABLE')
  },
}

t.test('what every ending makes of a slot, and what is charged', async (t) => {
  interface Row {
    readonly first?: Answers
    /** What a second entry does; undefined: there is none. */
    readonly second?: Answers
    readonly reader?: AudioReader
    readonly kind?: string
    readonly code: string | null
    readonly slot: 'free' | 'burned' | 'stored'
  }
  const unknown = { code: 'UPSTREAM_OUTCOME_UNKNOWN', slot: 'burned' } as const
  const failed = { code: 'UPSTREAM_ERROR', slot: 'free' } as const
  const rows: Readonly<Record<string, Row>> = {
    'an answer': { code: null, slot: 'stored' },
    'the audio is refused': { first: { upload: status(500) }, ...failed },
    'the order is refused': { first: { order: status(429) }, ...failed },
    'the order is the callers fault': {
      first: { order: status(400) },
      code: 'UPSTREAM_REJECTED',
      slot: 'free',
    },
    'the job failed': { first: { look: says('failed') }, ...failed },
    'the order breaks off': { first: { order: breaks }, ...unknown },
    'the order is not answered': { first: { order: hangs }, ...unknown },
    'the looks are refused': { first: { look: status(401) }, ...unknown },
    'the looks find nothing': { first: { look: status(404) }, ...unknown },
    'the looks fail': { first: { look: status(500) }, ...unknown },
    'the looks are not answered': { first: { look: hangs }, ...unknown },
    'it never ends': { first: { look: says('running') }, ...unknown },
    'a store fails while the audio is sent': {
      reader: failingReader,
      code: 'DEPENDENCY_UNAVAILABLE',
      slot: 'free',
    },
    'an adapter has a fault': { kind: 'broken', code: 'TypeError: a fault of the adapter', slot: 'burned' },
    'another entry answers': { first: { look: status(404) }, second: {}, code: null, slot: 'stored' },
    'another is refused': { first: { look: status(404) }, second: { order: status(400) }, ...unknown },
    'two refuse': {
      first: { order: status(500) },
      second: { order: status(400) },
      code: 'UPSTREAM_REJECTED',
      slot: 'free',
    },
  }
  for (const [what, row] of Object.entries(rows)) {
    const serve = (answers: Answers) =>
      upstream(t, (response, { url }: IncomingMessage) =>
        ({ ...USUAL, ...answers })[url?.split('/').at(-1) as Stage](response),
      )
    const sides = [row.first ?? {}, ...(row.second === undefined ? [] : [row.second])]
    const servers = await Promise.all(sides.map(serve))
    const entries = servers.map(({ origin }) => entryAt(origin, { kind: row.kind ?? 'jobs' }))
    const deadlineMs = row.code === unknown.code ? DEADLINE_MS : LONG_MS
    const parts = { entries, providers: PROVIDERS, reader: row.reader ?? reader, deadlineMs }
    const rig = gatewayRig(t, parts)
    const { ledger, accounts } = rig.services.state
    const request = rig.request('transcription', { audio: audio(), options: options() })
    const once = {
      slotId: SLOT,
      fingerprint: 'f1',
      render: () => ({ status: 200, headers: {}, text: 'heard' }),
    }
    const code = await runIdempotent(rig.services, request, once).then(
      () => null,
      (error: unknown) => (error instanceof GatewayError ? error.code : String(error)),
    )
    t.equal(code, row.code, what)
    t.match(await ledger.look('acme', SLOT), { state: row.slot }, `${what}: the slot`)
    const { spentMicros, reservedMicros } = await accounts.show('acme', {
      grant: null,
      trial: null,
      budgetMicros: null,
    })
    // Of a fault of the gateway's own nobody knows what it has cost.
    const isPaid = row.slot === 'stored' || row.kind === 'broken'
    t.same([spentMicros, reservedMicros], [isPaid ? COST : 0, 0], `${what}: what is paid`)
    t.equal(rig.services.budget.used, 0, `${what}: nothing is held`)
  }
})

t.test('whoever leaves before the slot is claimed leaves it free; a stop waits for the claim', async (t) => {
  const { origin, requests } = await upstream(t, (response) => response.end('{"text":"heard"}'))
  const rig = gatewayRig(t, { entries: [entryAt(origin)], reader })
  const { services } = rig
  const { ledger } = services.state
  const payload = { audio: audio(), options: options() }
  const once = { fingerprint: 'f1', render: () => ({ status: 200, headers: {}, text: 'heard' }) }
  const LEFT = new GatewayError('CLIENT_CLOSED')

  const gone = rig.request('transcription', payload, AbortSignal.abort(LEFT))
  await t.rejects(runIdempotent(services, gone, { ...once, slotId: SLOT }), { code: 'CLIENT_CLOSED' })
  t.same(await ledger.look('acme', SLOT), { state: 'free' })
  t.equal(requests.length, 0)

  const gate = Promise.withResolvers<void>()
  const begin: typeof ledger.begin = async (beginning) => {
    await gate.promise
    return ledger.begin(beginning)
  }
  const slow = { ...services, state: { ...services.state, ledger: { ...ledger, begin } } }
  const leaving = new AbortController()
  const going = runIdempotent(slow, rig.request('transcription', payload, leaving.signal), {
    ...once,
    slotId: SLOT,
  })
  await new Promise(setImmediate)
  leaving.abort(LEFT)
  t.equal(services.settlements.pending, 1)
  gate.resolve()
  t.match(await going, { text: 'heard' }, 'it goes on')
  t.match(await ledger.look('acme', SLOT), { state: 'stored' })
})
