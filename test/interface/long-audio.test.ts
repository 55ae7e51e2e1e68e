import OpenAI, { toFile } from 'openai'
import t, { type Test } from 'tap'
import { type Ear, type EarOptions, startEar } from '../support/ear.ts'
import { encodedSpeech } from '../support/encoded-speech.ts'
import { spokenWords, wordAt } from '../support/long-speech.ts'
import { type RouteGateway, startRouteGateway } from '../support/route-gateway.ts'
import { waitUntil } from '../support/wait-until.ts'
import { storedObjects } from './stored-objects.ts'

// Recordings are heard by real decoders, dozens of times.
t.setTimeout(180_000)

const COUNT = 40
const EVERY_SECONDS = 3
const WAV = spokenWords(COUNT, EVERY_SECONDS)
const WORDS = Array.from({ length: COUNT }, (_, index) => wordAt(index))
/** Longest that the entry takes; the file has two minutes. */
const MAX_SECONDS = 25
const PER_SECOND = 0.001
const CREDITS = 100

interface Part {
  readonly start: number
  readonly end: number
  readonly cost_usd: number
  readonly attempts: number
  readonly ends_in_silence: boolean
}

interface Transcript {
  readonly content: string
  readonly cost_usd: number
  readonly duration_seconds: number
  readonly words: readonly { readonly word: string; readonly start: number }[]
  readonly parts: readonly Part[]
  readonly skipped_silence_seconds: number
  readonly warnings: readonly string[]
}

interface JobObject {
  readonly job_id: string
  readonly status: string
  readonly attempts: number
  readonly progress: { readonly done: number; readonly total: number } | null
  readonly result: Transcript | null
  readonly error: { readonly code: string } | null
}

interface Rig {
  readonly ear: Ear
  readonly gateway: RouteGateway
}

interface RigOptions extends EarOptions {
  readonly route?: Readonly<Record<string, unknown>>
  readonly entry?: object
  readonly config?: Readonly<Record<string, unknown>>
  readonly jobs?: object
}

async function start(
  t: Test,
  { entry = {}, config = {}, route = {}, jobs, ...options }: RigOptions = {},
): Promise<Rig> {
  const ear = await startEar(t, { maxSeconds: MAX_SECONDS, ...options })
  const gateway = await startRouteGateway(t, {
    providers: { ears: { kind: 'openai-compatible', base_url: ear.url, retention: 'zero' } },
    entries: [
      {
        ...{ provider: 'ears', model: 'whisper-1', capabilities: ['audio_input'] },
        features: ['word_timestamps', 'segment_timestamps'],
        price: { per_hour_usd: 3600 * PER_SECOND },
        limits: { max_audio_seconds: MAX_SECONDS },
        ...entry,
      },
    ],
    config,
    route,
    credits: CREDITS,
    timing: { jobs: { retryMs: [10, 10, 10], ...jobs } },
  })
  return { ear, gateway }
}

function form(audio: Buffer, fields: Readonly<Record<string, string>> = { timestamps: 'both' }): FormData {
  const data = new FormData()
  data.append('file', new Blob([new Uint8Array(audio)]), 'long.wav')
  for (const [name, value] of Object.entries(fields)) data.append(name, value)
  return data
}

/** Submits a job, and follows it. @returns the job at its end, and the counts of parts that were seen */
async function runJob({ gateway }: Rig, body: FormData) {
  const submitted = await gateway.post('/v1/transcription/jobs', body)
  const { job_id: id } = (await submitted.json()) as JobObject
  if (submitted.status !== 202) throw new Error(`${submitted.status}`)
  const seen: number[] = []
  for (;;) {
    const url = `${gateway.url}/v1/transcription/jobs/${id}?wait=20`
    const job = (await (await fetch(url, { headers: gateway.authorization })).json()) as JobObject
    if (job.progress !== null) seen.push(job.progress.done)
    if (!['queued', 'processing'].includes(job.status)) return { job, seen }
  }
}

function checkTranscript(t: Test, transcript: Transcript): void {
  t.equal(transcript.content, WORDS.join(' '), 'every word once')
  t.same(
    transcript.words.map(({ word }) => word),
    WORDS,
  )
  const [{ start: first } = { start: 0 }] = transcript.words
  for (const [index, { start }] of transcript.words.entries())
    if (Math.abs(start - first - index * EVERY_SECONDS) > 0.1) t.fail(`word ${index} at ${start}`)
  // An encoder adds a frame or two.
  t.ok(Math.abs(transcript.duration_seconds - COUNT * EVERY_SECONDS) < 0.2)
  const { parts } = transcript
  t.ok(parts.length >= 6, `${parts.length} parts`)
  for (const [index, { start, ends_in_silence: isQuiet }] of parts.entries()) {
    t.equal(start, index === 0 ? 0 : parts[index - 1]!.end, 'parts follow one another')
    t.equal(isQuiet, index < parts.length - 1, 'every cut is in silence')
  }
  const micros = parts.reduce((sum, { cost_usd: usd }) => sum + Math.round(usd * 1e6), 0)
  t.equal(Math.round(transcript.cost_usd * 1e6), micros, 'it costs what its parts cost')
}

async function creditsOf({ gateway }: Rig): Promise<number> {
  const response = await fetch(`${gateway.url}/v1/me`, { headers: gateway.authorization })
  return ((await response.json()) as { billing: { credits_usd: number } }).billing.credits_usd
}

for (const format of ['wav', 'mp3', 'opus'])
  t.test(`a job hears audio that is too long for its entry in parts: ${format}`, async (t) => {
    const rig = await start(t)
    const audio = format === 'wav' ? WAV : await encodedSpeech(WAV, format)
    const { job, seen } = await runJob(rig, form(audio))
    t.equal(job.status, 'succeeded')
    checkTranscript(t, job.result!)
    t.equal(job.progress, null, 'it has ended')
    t.ok(seen.length > 1, 'its progress was seen')
    t.same(
      seen,
      seen.toSorted((one, other) => one - other),
    )
    const { heard } = rig.ear
    t.equal(heard.length, job.result!.parts.length, 'each part was heard once')
    await waitUntil(async () => Math.abs(CREDITS - (await creditsOf(rig)) - job.result!.cost_usd) < 1e-9)
    for (const { seconds } of heard) t.ok(seconds <= MAX_SECONDS)
    // The record keeps the result; everything else is gone.
    await waitUntil(async () => (await storedObjects(rig.gateway.dataFolder)).length === 0)
  })

t.test('parts keep to the limit of bytes of an entry', async (t) => {
  const maxBytes = 450_000
  const rig = await start(t, {
    maxBytes,
    maxSeconds: Number.POSITIVE_INFINITY,
    entry: { limits: { max_audio_bytes: maxBytes } },
  })
  const { job } = await runJob(rig, form(WAV))
  checkTranscript(t, job.result!)
  for (const { bytes } of rig.ear.heard) t.ok(bytes <= maxBytes)
})

t.test('who waits for the answer gets it in one piece, whatever the door', async (t) => {
  const rig = await start(t)
  const { gateway, ear } = rig
  const native = await gateway.post('/v1/transcription', form(WAV))
  t.equal(native.status, 200)
  checkTranscript(t, (await native.json()) as Transcript)
  const once = ear.heard.length
  const keyed = { 'idempotency-key': 'once' }
  const first = await gateway.post('/v1/transcription', form(WAV), keyed)
  const again = await gateway.post('/v1/transcription', form(WAV), keyed)
  t.equal(again.headers.get('x-lk-idempotent-replay'), 'true')
  t.equal(await again.text(), await first.text(), 'and the same when it asks again')
  t.equal(ear.heard.length, 2 * once)
  const client = new OpenAI({
    apiKey: gateway.authorization.authorization.slice(7),
    baseURL: `${gateway.url}/openai/v1`,
  })
  const file = await toFile(WAV, 'long.wav')
  const verbose = await client.audio.transcriptions.create({
    ...{ file, model: 'whisper-1', response_format: 'verbose_json' },
    timestamp_granularities: ['word'],
  })
  t.equal(verbose.text, WORDS.join(' '))
  t.equal(verbose.words?.length, COUNT)
  const stream = await client.audio.transcriptions.create({ file, model: 'whisper-1', stream: true })
  let done = ''
  for await (const event of stream) if (event.type === 'transcript.text.done') done = event.text
  t.equal(done, WORDS.join(' '), 'also as a stream')
  await waitUntil(async () => (await storedObjects(gateway.dataFolder)).length === 0)
})

t.test('a part that fails is tried at the next entry, and nothing else is', async (t) => {
  const failed: number[] = []
  const fault = (index: number) => (index === 2 && failed.push(index) === 1 ? 500 : null)
  const second = await startEar(t, { maxSeconds: MAX_SECONDS })
  const first = await startEar(t, { maxSeconds: MAX_SECONDS, fault })
  const limits = { max_audio_seconds: MAX_SECONDS }
  const entry = {
    model: 'whisper-1',
    capabilities: ['audio_input'],
    features: ['word_timestamps', 'segment_timestamps'],
  }
  const gateway = await startRouteGateway(t, {
    providers: {
      first: { kind: 'openai-compatible', base_url: first.url },
      second: { kind: 'openai-compatible', base_url: second.url },
    },
    entries: ['first', 'second'].map((provider) => ({
      ...entry,
      provider,
      limits,
      price: { per_hour_usd: 3.6 },
    })),
  })
  const { job } = await runJob({ ear: first, gateway }, form(WAV))
  checkTranscript(t, job.result!)
  t.equal(second.heard.length, 1)
  t.equal(job.result!.parts.filter(({ attempts }) => attempts === 2).length, 1)
})

t.test('a job that is tried again hears only what it has not heard', async (t) => {
  const failures: string[] = []
  const broken = WORDS[20]!
  const rig = await start(t, {
    fault: (_, { words }) => (words.includes(broken) && failures.push(broken) <= 2 ? 503 : null),
  })
  const { job } = await runJob(rig, form(WAV))
  t.equal(job.status, 'succeeded')
  t.ok(job.attempts > 1, `${job.attempts} claims`)
  checkTranscript(t, job.result!)
  t.equal(rig.ear.heard.length, job.result!.parts.length, 'no part was heard twice')
})

t.test('a job waits for a provider that has too many calls at once', async (t) => {
  const rig = await start(t, { fault: (index) => (index === 1 || index === 3 ? 429 : null) })
  const { job } = await runJob(rig, form(WAV))
  t.equal(job.status, 'succeeded')
  t.equal(job.attempts, 1, 'within one run')
  checkTranscript(t, job.result!)
  t.equal(rig.ear.heard.length, job.result!.parts.length, 'no part was heard twice')
})

t.test('who waits for the answer waits for such a provider, too, once a part is paid for', async (t) => {
  const { gateway, ear } = await start(t, { fault: (index) => (index === 1 || index === 3 ? 429 : null) })
  const answer = await gateway.post('/v1/transcription', form(WAV))
  t.equal(answer.status, 200)
  const transcript = (await answer.json()) as Transcript
  checkTranscript(t, transcript)
  t.equal(ear.heard.length, transcript.parts.length, 'no part was heard twice')
  const busy = await start(t, { fault: () => 429 })
  const refused = await busy.gateway.post('/v1/transcription', form(WAV))
  t.equal(refused.status, 502, 'but not for one that takes none of them')
  t.equal(busy.ear.heard.length, 0)
})

t.test('a job that fails for good is charged for what was heard', async (t) => {
  const rig = await start(t, { fault: (_, { words }) => (words.includes(WORDS[20]!) ? 503 : null) })
  const { job } = await runJob(rig, form(WAV))
  t.equal(job.status, 'failed')
  t.equal(job.error?.code, 'UPSTREAM_ERROR')
  const heardSeconds = rig.ear.heard.reduce((sum, { seconds }) => sum + seconds, 0)
  t.ok(heardSeconds > 0 && heardSeconds < COUNT * EVERY_SECONDS)
  await waitUntil(async () => Math.abs(CREDITS - (await creditsOf(rig)) - heardSeconds * PER_SECOND) < 1e-4)
  await waitUntil(async () => (await storedObjects(rig.gateway.dataFolder)).length === 0)
})

t.test('what a cut would break, or must not be kept, is refused before anything is heard', async (t) => {
  const { gateway, ear } = await start(t, { entry: { features: ['diarization', 'segment_timestamps'] } })
  const code = async (fields: Readonly<Record<string, string>>, headers = {}) => {
    const response = await gateway.post('/v1/transcription', form(WAV, fields), headers)
    const { error } = (await response.json()) as { error: { code: string; param: string | null } }
    return `${response.status} ${error.code} ${error.param}`
  }
  t.equal(await code({ diarization: 'true' }), '400 INVALID_REQUEST audio')
  t.match(await code({}, { 'x-lk-require': 'retention=zero' }), /REQUIRED_FEATURE_UNAVAILABLE/)
  t.equal(ear.heard.length, 0)
})

/** Words with much silence between them, as in a recording of a meeting that has not begun. */
const SPARSE_SECONDS = 12
const SPARSE_COUNT = 10
const SPARSE = spokenWords(SPARSE_COUNT, SPARSE_SECONDS)

for (const format of ['wav', 'mp3', 'opus'])
  t.test(`silence is left out, and all times are those of the audio: ${format}`, async (t) => {
    const { gateway, ear } = await start(t, { maxSeconds: 60, entry: { limits: {} } })
    const audio = format === 'wav' ? SPARSE : await encodedSpeech(SPARSE, format)
    const whole = await gateway.post('/v1/transcription', form(audio))
    const expected = (await whole.json()) as Transcript
    const sent = form(audio, { timestamps: 'both', skip_silence: 'true' })
    const response = await gateway.post('/v1/transcription', sent)
    const skipped = (await response.json()) as Transcript
    t.equal(skipped.content, WORDS.slice(0, SPARSE_COUNT).join(' '))
    for (const [index, { start }] of skipped.words.entries()) {
      const off = Math.abs(start - skipped.words[0]!.start - index * SPARSE_SECONDS)
      if (off > 0.1) t.fail(`word ${index} is ${off} s off`)
    }
    // A word takes about a second, and half a second of each silence stays.
    const heard = ear.heard.at(-1)!.seconds
    t.ok(heard < SPARSE_COUNT * 2.5, `${heard} s`)
    const all = SPARSE_SECONDS * SPARSE_COUNT
    t.ok(Math.abs(skipped.skipped_silence_seconds - (all - heard)) < all * 0.02, 'what is left out is told')
    t.equal(skipped.parts, undefined, 'it is heard whole otherwise')
    t.ok(Math.abs(skipped.duration_seconds - all) < 0.2)
    t.ok(skipped.cost_usd < heard * PER_SECOND + 1e-4, 'and is not paid for')
    if (whole.status === 200) t.equal(expected.content, skipped.content, 'words are the same')
  })

t.test('silence that people think in stays, and so does the rest of a file that cannot be cut', async (t) => {
  const { gateway, ear } = await start(t, { entry: { limits: {} }, maxSeconds: 600 })
  const short = spokenWords(10, 2)
  const kept = (await (
    await gateway.post('/v1/transcription', form(short, { skip_silence: 'true' }))
  ).json()) as Transcript
  t.equal(kept.skipped_silence_seconds, 0)
  t.equal(Math.round(ear.heard[0]!.seconds), 20)
})

t.test('a route leaves silence out, unless the call says otherwise', async (t) => {
  const { gateway, ear } = await start(t, {
    maxSeconds: 600,
    entry: { limits: {} },
    route: { skip_silence: true },
  })
  const ask = async (fields: Readonly<Record<string, string>>, headers = {}) =>
    (await (await gateway.post('/v1/transcription', form(SPARSE, fields), headers)).json()) as Transcript
  t.ok((await ask({})).skipped_silence_seconds > 90)
  t.equal((await ask({ skip_silence: 'false' })).skipped_silence_seconds, undefined)
  const zero = await ask({}, { 'x-lk-require': 'retention=zero' })
  t.equal(zero.skipped_silence_seconds, undefined, 'nothing is stored that may not be kept')
  t.match(zero.warnings, [/^skip_silence: left out/])
  const streamed = await gateway.post('/v1/transcription', form(SPARSE, { stream: 'true' }))
  t.equal(streamed.status, 200)
  await streamed.text()
  t.ok(ear.heard.at(-1)!.seconds > 100, 'a stream is heard as it is')
})

t.test('a call that may cost more than its caller allows is refused with its estimate', async (t) => {
  const { gateway, ear } = await start(t)
  const ask = async (most: string) => {
    const response = await gateway.post('/v1/transcription', form(WAV, { max_cost_usd: most }))
    return {
      status: response.status,
      json: (await response.json()) as { error?: { code: string; details: object } },
    }
  }
  const refused = await ask('0.1')
  t.equal(refused.status, 402)
  t.match(refused.json.error, {
    code: 'BUDGET_EXCEEDED',
    details: { budget: 'request', max_cost_usd: 0.1, estimated_cost_usd: Number },
  })
  const { estimated_cost_usd: estimate } = refused.json.error!.details as { estimated_cost_usd: number }
  const seconds = COUNT * EVERY_SECONDS
  t.ok(estimate >= seconds * PER_SECOND && estimate < seconds * PER_SECOND * 1.5, `${estimate} USD`)
  t.equal(ear.heard.length, 0)
  const job = await gateway.post('/v1/transcription/jobs', form(WAV, { max_cost_usd: '0.1' }))
  t.equal(job.status, 402, 'a job too, at once')
  t.equal((await ask(String(estimate))).status, 200, 'what is estimated is enough')
  const wrong = await gateway.post('/v1/transcription', form(WAV, { max_cost_usd: '-1' }))
  t.equal(wrong.status, 400)
})
