import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import WebSocket from 'ws'
import type { LiveCall, TranscriptionOptions } from '../../../src/contracts/calls.ts'
import type { LiveEvent, LiveFrame, LiveStepper } from '../../../src/contracts/live.ts'
import type { Provider, Target } from '../../../src/contracts/provider.ts'
import type { Failure } from '../../../src/contracts/upstream.ts'
import { deepgram } from '../../../src/gateway/providers/deepgram/provider.ts'
import { openai } from '../../../src/gateway/providers/openai/provider.ts'
import { sandbox } from '../../../src/gateway/providers/sandbox.ts'
import { startSandbox } from '../../../src/sandbox/server.ts'
import { liveCall, liveTarget } from '../../support/live.ts'
import { framesOf, liveAudio, silence, timesOff } from '../../support/live-audio.ts'

/** A stepper over a real socket, as a session drives it. */
class Connection {
  readonly events: LiveEvent[] = []
  readonly #socket: WebSocket
  readonly #stepper: LiveStepper
  readonly #ready: Promise<unknown>
  readonly ended: Promise<Failure | null>

  constructor({ live }: Provider, call: LiveCall, target: Target) {
    const { url, protocols, headers } = live!.handshake(call, target)
    const socket = new WebSocket(url, [...protocols], { headers, perMessageDeflate: false })
    const stepper = live!.connect(call, target)
    this.#socket = socket
    this.#stepper = stepper
    let ready = (): void => {}
    this.#ready = new Promise<void>((resolve) => (ready = resolve))
    socket.on('open', () => {
      this.send(stepper.opened())
      if (live!.readyWhenOpen) ready()
    })
    socket.on('error', () => undefined)
    this.ended = new Promise((resolve) => {
      socket.on('unexpected-response', (_request, reply) => {
        void reply.toArray().then((body: Uint8Array[]) => {
          const given = reply.headers as Record<string, string>
          resolve(live!.refused({ status: reply.statusCode ?? 0, headers: given, body }))
        })
      })
      socket.on('close', (code, reason) => resolve(stepper.closed(code, reason.toString())))
      socket.on('message', (data, isBinary) => {
        const { events, reply = [] } = stepper.received(isBinary ? (data as Buffer) : data.toString())
        this.send(reply)
        this.events.push(...events)
        for (const event of events) {
          if (event.kind === 'ready') ready()
          if (event.kind === 'failed') resolve(event.failure)
          if (event.kind === 'ended') socket.close()
        }
      })
    })
  }

  send(frames: readonly LiveFrame[]): void {
    for (const frame of frames) this.#socket.send(frame)
  }

  async audio(frames: Iterable<Uint8Array>): Promise<this> {
    await this.#ready
    for (const frame of frames) this.send(this.#stepper.audio(frame))
    return this
  }

  /** Has what was sent settled, and waits until it is. */
  async finalize(): Promise<void> {
    const answers = () => this.events.filter(({ kind }) => kind === 'finalized').length
    const before = answers()
    const frames = this.#stepper.finalize() ?? []
    this.send(frames)
    for (let turn = 0; turn < 1000 && frames.length > 0 && answers() === before; turn += 1) await sleep(5)
  }

  async end(): Promise<Failure | null> {
    this.send(this.#stepper.end())
    return await this.ended
  }

  get text(): string {
    return this.events.flatMap((event) => (event.kind === 'final' ? [event.segment.text] : [])).join(' ')
  }
}

const TEXT = 'the quick brown fox jumps over the lazy dog'

async function start(t: Test) {
  const server = await startSandbox()
  t.teardown(() => server.close())
  const origin = server.url.replace('/v1', '')
  return {
    /** @param faults ordered in the address */
    target: (kind: string, model: string, faults = '') => {
      const base = `${origin}${faults === '' ? '' : `/x-sandbox/${faults}`}`
      return liveTarget(model, { baseUrl: kind === 'deepgram' ? base : `${base}/v1` })
    },
  }
}

function call(sampleRate: number, options: Partial<TranscriptionOptions> = {}): LiveCall {
  return liveCall(options, { audio: { encoding: 'pcm_s16le', sampleRate, channels: 1 } })
}

t.test(
  'the words of a recording, their times and what is settled, by the protocol of Deepgram',
  async (t) => {
    const { target } = await start(t)
    const audio = liveAudio(TEXT, { sampleRate: 16_000 })
    for (const provider of [deepgram, sandbox]) {
      const model = provider === sandbox ? 'morse-1' : 'nova-3'
      const connection = new Connection(
        provider,
        call(16_000, { timestamps: 'word' }),
        target(provider.kind, model),
      )
      await connection.audio(framesOf(audio, 100))
      t.equal(await connection.end(), null, provider.kind)
      t.equal(connection.text.toLowerCase(), TEXT)
      const words = connection.events.flatMap((event) => (event.kind === 'final' ? event.words : []))
      t.ok(timesOff(words, audio.words) <= 0.02, 'times')
      const settled = connection.events.flatMap((event) => (event.kind === 'settled' ? [event.seconds] : []))
      t.same(
        settled,
        settled.toSorted((a, b) => a - b),
      )
      t.equal(connection.events.at(-1)?.kind, 'ended')
      t.ok(connection.events.some(({ kind }) => kind === 'partial'))
    }
  },
)

t.test('the words of a recording by the protocol of OpenAI, with turns and without', async (t) => {
  const { target } = await start(t)
  const audio = liveAudio(TEXT, { sampleRate: 24_000 })
  for (const model of ['gpt-live-transcribe', 'gpt-4o-transcribe', 'gpt-realtime-whisper']) {
    const connection = new Connection(openai, call(24_000), target('openai', model))
    await connection.audio(framesOf(audio, 100))
    t.equal(await connection.end(), null, model)
    t.equal(connection.text, TEXT, model)
    const settled = connection.events.filter((event) => event.kind === 'settled').at(-1)
    t.match(settled, { seconds: Math.round(audio.seconds * 1000) / 1000 }, 'all of it')
  }
})

t.test('finalize is answered, with speech before it and without', async (t) => {
  const { target } = await start(t)
  const rows = [
    [deepgram, 'nova-3', 16_000],
    [openai, 'gpt-live-transcribe', 24_000],
    [openai, 'gpt-4o-transcribe', 24_000],
  ] as const
  for (const [provider, model, sampleRate] of rows) {
    const connection = new Connection(provider, call(sampleRate), target(provider.kind, model))
    await connection.audio(framesOf(liveAudio('first', { sampleRate }), 100))
    await connection.finalize()
    await connection.audio([silence(1, sampleRate)])
    await connection.finalize()
    await connection.audio(framesOf(liveAudio('second', { sampleRate }), 100))
    t.equal(await connection.end(), null, model)
    t.equal(connection.text.toLowerCase(), 'first second', model)
    const order = connection.events.flatMap((event) =>
      event.kind === 'final'
        ? [event.segment.text.toLowerCase()]
        : event.kind === 'finalized'
          ? [event.kind]
          : [],
    )
    t.same(order, ['first', 'finalized', 'finalized', 'second'], model)
  }
})

t.test('what is refused and how it breaks is classified as with answers', async (t) => {
  const { target } = await start(t)
  const rows: [Provider, string, string, object][] = [
    [deepgram, 'nova-3', 'status=401,code=INVALID_AUTH', { kind: 'credential', status: 401 }],
    [deepgram, 'whatever', '', { kind: 'model', status: 400 }],
    [deepgram, 'nova-3', 'status=429,retry-after=7', { kind: 'rate', status: 429 }],
    [deepgram, 'nova-3', 'close-after-ms=500', { kind: 'server', status: null }],
    [deepgram, 'nova-3', 'reset-after-ms=500', { kind: 'ambiguous', status: null }],
    [openai, 'gpt-4o-transcribe', 'status=401', { kind: 'credential', status: 401 }],
    [openai, 'gpt-4o-transcribe', 'close-after-ms=500,close-code=1013', { kind: 'rate', status: null }],
    [openai, 'nothing', '', { status: null }],
    [sandbox, 'morse-1', 'reset-in-word=2', { kind: 'ambiguous' }],
  ]
  for (const [provider, model, faults, expected] of rows) {
    const sampleRate = provider === openai ? 24_000 : 16_000
    const connection = new Connection(provider, call(sampleRate), target(provider.kind, model, faults))
    void connection.audio(framesOf(liveAudio(TEXT, { sampleRate }), 100))
    t.match(await connection.ended, expected, `${provider.kind} ${model} ${faults}`)
  }
})

t.test('every option that a model keeps live is taken, alone and with all others', async (t) => {
  const { target } = await start(t)
  const audio = liveAudio('one two', { sampleRate: 16_000 })
  const keyterms = ['lark']
  const rows: readonly [Provider, string, readonly Partial<TranscriptionOptions>[]][] = [
    [
      deepgram,
      'nova-3',
      [
        { timestamps: 'both' },
        { diarization: true },
        { redaction: ['numbers', 'pci'], language: 'en' },
        { keyterms },
        { multichannel: true },
        { smart_formatting: true, profanity_filter: true, language: 'en-US' },
        { detect_language: true },
      ],
    ],
    [
      sandbox,
      'morse-1',
      [{ timestamps: 'both' }, { diarization: true }, { multichannel: true }, { language: 'en' }],
    ],
    [openai, 'gpt-live-transcribe', [{ keyterms }, { language: 'en' }]],
    [openai, 'gpt-4o-transcribe', [{ prompt: 'larks' }, { language: 'en' }]],
  ]
  for (const [provider, model, alone] of rows) {
    const { detect_language: _, ...all } = Object.assign({}, ...alone) as Partial<TranscriptionOptions>
    for (const options of [{}, ...alone, all]) {
      for (const commit of ['auto', 'manual'] as const) {
        const made = liveCall(options, {
          audio: { encoding: 'pcm_s16le', sampleRate: provider === openai ? 24_000 : 16_000, channels: 1 },
          commit,
          endpointingMs: 300,
        })
        const name = `${provider.kind} ${model} ${commit} ${JSON.stringify(options)}`
        t.equal(provider.live?.unsupported?.(made, target(provider.kind, model)) ?? null, null, name)
        const connection = new Connection(provider, made, target(provider.kind, model))
        const sent = provider === openai ? liveAudio('one two', { sampleRate: 24_000 }) : audio
        await connection.audio(framesOf(sent, 100))
        t.equal(await connection.end(), null, name)
        t.equal(connection.text.toLowerCase(), 'one two', name)
      }
    }
  }
})
