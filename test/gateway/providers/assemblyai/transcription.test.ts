import t, { type Test } from 'tap'
import type { TranscriptionOptions, TranscriptionResult } from '../../../../src/contracts/calls.ts'
import type { JsonObject } from '../../../../src/contracts/json.ts'
import type { Step, Target } from '../../../../src/contracts/provider.ts'
import type { UpstreamReply, UpstreamRequest } from '../../../../src/contracts/upstream.ts'
import { assemblyai } from '../../../../src/gateway/providers/assemblyai/provider.ts'
import { policiesOf } from '../../../../src/gateway/providers/assemblyai/redaction.ts'
import { audio, options } from '../../../support/call.ts'
import { fixture, reply } from '../../../support/replies.ts'

type Given = Partial<TranscriptionOptions>

const transcription = assemblyai.transcription!
const ID = '9ea68fd3-f953-42c1-9742-976c447fb463'
const uploaded = { upload_url: 'https://cdn.assemblyai.com/upload/x' }
const queued = { id: ID, status: 'queued' }
const processing = { id: ID, status: 'processing' }

function target(options: Target['options'] = {}): Target {
  return {
    model: 'universal-3-5-pro',
    baseUrl: 'https://api.assemblyai.com',
    credential: 'aai-secret',
    options,
  }
}

interface Run {
  readonly requests: readonly string[]
  readonly waitsMs: readonly number[]
  readonly last: Step<TranscriptionResult>
}

/** Hands the answers to the stepper one by one, its state through JSON as a job would keep it. */
function run(replies: readonly UpstreamReply[], given: Given = {}, at = target()): Run {
  const call = { audio: audio(), options: options(given) }
  const requests: string[] = []
  const waitsMs: number[] = []
  const note = ({ method, url }: UpstreamRequest) => requests.push(`${method} ${new URL(url).pathname}`)
  let step = transcription.start(call, at)
  for (const answer of replies) {
    if (step.kind !== 'send' && step.kind !== 'wait') break
    note(step.request)
    if (step.kind === 'wait') waitsMs.push(step.waitMs)
    step = transcription.next(JSON.parse(JSON.stringify(step.state)), answer, call, at)
  }
  return { requests, waitsMs, last: step }
}

function done(t: Test, { last }: Run): TranscriptionResult {
  if (last.kind === 'done') return last.result
  t.fail(`no result: ${JSON.stringify(last)}`)
  throw new Error('no result')
}

const plain = (await fixture('assemblyai/plain.json')) as JsonObject

/** What comes of a transcript that is complete at the first look. */
const ended = (body: unknown, given: Given = {}, at?: Target) =>
  run([reply(uploaded), reply(queued), reply(body)], given, at)

t.test('upload, create, look until it is done', async (t) => {
  const looks = [queued, processing, processing, processing, plain]
  const all = run([reply(uploaded), reply(queued), ...looks.map((body) => reply(body))])
  t.same(all.requests, [
    'POST /v2/upload',
    'POST /v2/transcript',
    ...looks.map(() => `GET /v2/transcript/${ID}`),
  ])
  t.same(all.waitsMs, [1000, 2000, 3000, 3000, 3000])
  const { segments, words, ...rest } = done(t, all)
  t.same(rest, {
    text: 'Smoke from hundreds of wildfires. It is in Canada.',
    language: 'en',
    languageConfidence: 0.9932,
    durationSeconds: 281,
    warnings: [],
  })
  t.same(words[0], { word: 'Smoke', start: 0.25, end: 0.65, confidence: 0.9747 }, 'milliseconds → seconds')
  t.equal(words.length, 9)
  t.same(
    segments.map(({ id, start, end, text }) => [id, start, end, text]),
    [
      [0, 0.25, 2.366, 'Smoke from hundreds of wildfires.'],
      [1, 2.421, 3.52, 'It is in Canada.'],
    ],
    'made of the words',
  )
  t.notOk([...segments, ...words].some((item) => 'speaker' in item || 'channel' in item))
})

t.test('a create whose answer is complete needs no look', async (t) => {
  t.equal(done(t, run([reply(uploaded), reply(plain)])).language, 'en')
})

t.test('speakers', async (t) => {
  const body = await fixture('assemblyai/speakers.json')
  const { segments, words, language } = done(t, ended(body, { diarization: true }))
  t.equal(language, 'de')
  t.same(segments, [
    { id: 0, start: 0.1, end: 1.3, text: 'Grüezi, hier Meier.', speaker: 'speaker_0', confidence: 0.8667 },
    { id: 1, start: 1.5, end: 2.1, text: 'Guten Tag.', speaker: 'speaker_1', confidence: 0.9 },
    { id: 2, start: 2.2, end: 3.1, text: 'Wie kann ich helfen?', speaker: 'speaker_0', confidence: 0.9 },
  ])
  t.equal(words[3]?.speaker, 'speaker_1')
  const unasked = done(t, ended(body))
  t.notOk(unasked.segments.some((segment) => 'speaker' in segment))
})

t.test('channels, each with speakers of its own', async (t) => {
  const body = await fixture('assemblyai/channels.json')
  const { segments, words } = done(t, ended(body, { multichannel: true, diarization: true }))
  t.same(
    segments.map(({ text, channel, speaker }) => [text, channel, speaker]),
    [
      ['Hello.', 0, 'speaker_0'],
      ['Hi there.', 1, 'speaker_1'],
      ['Good.', 0, 'speaker_2'],
    ],
  )
  t.match(words[1], { word: 'Hi', channel: 1, speaker: 'speaker_1' })
  const channels = done(t, ended(body, { multichannel: true }))
  t.match(channels.segments[1], { channel: 1 })
  t.notOk('speaker' in channels.segments[1]!, 'a channel is no speaker')
})

t.test('redaction has to be shown', async (t) => {
  const given: Given = { redaction: ['pci', 'phi'] }
  const policies = policiesOf(['pci', 'phi'])
  const redacted = { ...plain, redact_pii: true, redact_pii_policies: [...policies, 'event'] }
  t.equal(ended(redacted, given).last.kind, 'done')
  const rows: JsonObject[] = [
    plain,
    { ...redacted, redact_pii: false },
    { ...redacted, redact_pii: 'true' },
    { ...redacted, redact_pii_policies: policies.slice(1) },
    { ...redacted, redact_pii_policies: null },
    { ...redacted, language_code: 'ur' },
    { ...redacted, language_code: null },
  ]
  for (const body of rows) {
    const expected = { kind: 'server', reason: 'the answer lacks the redaction that was asked for' }
    t.match(ended(body, given).last, { kind: 'failed', failure: expected })
  }
  const silent = { ...plain, text: null, words: [] }
  t.equal(ended(silent, given).last.kind, 'done', 'in silence there is nothing to redact')
})

t.test('what was left out is told', async (t) => {
  const { warnings } = done(t, ended(plain, { prompt: 'x', keyterms: ['a'] }))
  t.same(warnings, ['prompt: universal-3-5-pro takes it only without keyterms; it was left out'])
  t.same(done(t, ended(plain, { prompt: 'a '.repeat(1501) })).warnings, [
    'prompt: universal-3-5-pro takes up to 1500 words of it; it was left out',
  ])
  const older = { ...target(), model: 'universal-2' }
  t.same(done(t, ended(plain, { prompt: 'x' }, older)).warnings, [
    'prompt: universal-2 does not take this hint; it was left out',
  ])
})

t.test('looks that go wrong', async (t) => {
  const tired = reply({ error: 'Too many requests' }, 429, { 'retry-after': '7' })
  const broken = reply('<html>', 500)
  const looked = run([reply(uploaded), reply(queued), tired, broken, reply(processing), broken, reply(plain)])
  t.equal(done(t, looked).language, 'en')
  t.same(looked.waitsMs, [1000, 7000, 3000, 2000, 3000])
  const gone = run([reply(uploaded), reply(queued), ...Array.from({ length: 9 }, () => broken)])
  t.match(gone.last, { kind: 'failed', failure: { kind: 'server', status: 500 } })
  t.equal(gone.requests.length, 8, 'five troubles are borne')
  const between = [broken, broken, broken, broken, broken, reply(processing)]
  const patient = run([reply(uploaded), reply(queued), ...between, ...between, reply(plain)])
  t.equal(patient.last.kind, 'done', 'a good look forgets the troubles')
  const refused = run([reply(uploaded), reply(queued), reply({ error: 'Invalid API key' }, 401)])
  t.match(refused.last, { kind: 'failed', failure: { kind: 'credential' } })
})

t.test('refusals', async (t) => {
  const rows: [number, string][] = [
    [400, 'caller'],
    [401, 'credential'],
    [403, 'credential'],
    [429, 'rate'],
    [500, 'server'],
    [503, 'rate'],
    [504, 'server'],
  ]
  for (const [status, kind] of rows) {
    const no = reply({ error: 'no' }, status)
    const expected = { kind: 'failed', failure: { kind, status } }
    t.match(run([no]).last, expected, `upload ${status}`)
    t.match(run([reply(uploaded), no]).last, expected, `create ${status}`)
  }
  const upload = run([reply({ error: 'Upload failed, please try again' }, 422)])
  t.match(upload.last, { kind: 'failed', failure: { kind: 'server', status: 422 } })
  t.match(run([reply(uploaded), reply({ error: 'no' }, 422)]).last, { failure: { kind: 'caller' } })
})

t.test('transcripts that failed', async (t) => {
  const failed = (await fixture('assemblyai/failed.json')) as JsonObject
  const retry =
    'Internal server error. Please retry your request. If the error persists, ' +
    'please contact support@assemblyai.com for more information.'
  const rows: [unknown, string][] = [
    [failed.error, 'caller'],
    [retry, 'server'],
    ['Server error, developers have been alerted', 'server'],
    ['Server error, developers have been alerted.', 'server'],
    [`${retry} (audio)`, 'server'],
    ['Internal server error', 'server'],
    ['Download error, unable to download https://cdn.assemblyai.com/upload/1', 'server'],
    ['Download error, unable to download https://example.com/upload/1', 'caller'],
    ['Upload failed, please try again.', 'server'],
    ['server error', 'caller'],
    [null, 'caller'],
    [{ code: 'insufficient_quota' }, 'credential'],
  ]
  for (const [error, kind] of rows) {
    const { last } = ended({ ...failed, error })
    t.match(last, { kind: 'failed', failure: { kind, status: 200, retryAfterMs: null } }, String(error))
    const { reason, providerMessage } = (last as { failure: { reason: string; providerMessage: string } })
      .failure
    if (typeof error !== 'string') continue
    t.notOk(reason.includes(error), 'the provider’s words are for the log')
    t.equal(providerMessage, error)
  }
  const long = ended({ ...failed, error: 'ü'.repeat(5000) }).last
  t.ok(Buffer.byteLength((long as { failure: { providerMessage: string } }).failure.providerMessage) <= 2048)
})

t.test('hostile answers', async (t) => {
  const uploads = ['', 'x', '[]', {}, { upload_url: 7 }, { upload_url: '' }, { upload_url: 'x'.repeat(5000) }]
  for (const body of uploads) {
    t.match(run([reply(body)]).last, { kind: 'failed', failure: { kind: 'server', status: 200 } })
  }
  const creates = [
    '',
    '[]',
    {},
    { status: 'queued' },
    { id: 7, status: 'queued' },
    { id: '', status: 'queued' },
    { id: '../../v2/upload', status: 'queued' },
    { id: 'a?b', status: 'queued' },
    { id: 'a/../b', status: 'queued' },
    { id: 'x'.repeat(200), status: 'queued' },
    { id: ID },
    { id: ID, status: 'paused' },
    { id: ID, status: 'completed' },
  ]
  for (const body of creates) {
    const { last } = run([reply(uploaded), reply(body)])
    t.match(last, { kind: 'failed', failure: { kind: 'server', status: 200 } }, JSON.stringify(body))
  }
  for (const body of ['', '[]', { status: 'paused' }, { status: 'completed', text: 7 }, '{"status":"compl']) {
    t.match(ended(body).last, { kind: 'failed', failure: { kind: 'server' } }, JSON.stringify(body))
  }
  const moved = run([reply(uploaded), reply(queued), reply({ ...processing, id: '../x' }), reply(plain)])
  t.equal(moved.requests.at(-1), `GET /v2/transcript/${ID}`, 'the number of the create counts')
})

t.test('malformed parts of a good answer are left out', async (t) => {
  const body = {
    ...plain,
    language_code: 7,
    language_confidence: 2,
    audio_duration: -1,
    words: [
      null,
      { text: 'a', start: -1, end: 5 },
      { text: 'b', start: '1', end: 5 },
      { text: 7, start: 1, end: 5 },
      { text: ' c ', start: 9, end: 5, confidence: 'high', speaker: 3, channel: '0' },
    ],
    utterances: 'none',
  }
  t.same(done(t, ended(body, { multichannel: false })), {
    text: plain.text,
    language: null,
    languageConfidence: null,
    durationSeconds: null,
    segments: [{ id: 0, start: 0.009, end: 0.009, text: 'c' }],
    words: [{ word: 'c', start: 0.009, end: 0.009 }],
    warnings: ['words: 2 of 3 came without times and were left out; content is not affected'],
  })
  t.equal(done(t, ended({ ...plain, language_code: 'jw' })).language, 'jv')
})

t.test('what was required and did not come', async (t) => {
  const bare = { ...plain, words: [], utterances: null }
  const rows: [unknown, Given][] = [
    [bare, { timestamps: 'word' }],
    [bare, { response_format: 'srt' }],
    [plain, { diarization: true }],
    [plain, { multichannel: true }],
  ]
  for (const [body, given] of rows) {
    t.match(ended(body, given).last, { kind: 'failed', failure: { kind: 'server' } }, JSON.stringify(given))
  }
  const silent = { ...plain, text: '', words: [] }
  t.equal(ended(silent, { timestamps: 'both', diarization: true }).last.kind, 'done')
})

t.test('a transcript that is deleted after reading', async (t) => {
  const at = target({ delete_after: true })
  const deletes = (...answers: UpstreamReply[]) => run([reply(uploaded), reply(queued), ...answers], {}, at)
  const gone = reply({ id: ID, status: 'completed', text: 'Deleted by user.' })
  const deleted = deletes(reply(plain), gone)
  t.equal(deleted.requests.at(-1), `DELETE /v2/transcript/${ID}`)
  t.match(done(t, deleted), { text: plain.text, warnings: [] })
  const warned = { text: plain.text, warnings: ['the transcript could not be deleted at the provider'] }
  t.match(done(t, deletes(reply(plain), reply({ error: 'no' }, 500))), warned)
  const { last: waiting } = deletes(reply(plain))
  t.match(waiting, { kind: 'send', otherwise: { kind: 'done', result: warned } }, 'no answer only warns, too')
  const failed = await fixture('assemblyai/failed.json')
  for (const answer of [gone, reply({ error: 'no' }, 400)]) {
    const { last, requests } = deletes(reply(failed), answer)
    t.equal(requests.at(-1), `DELETE /v2/transcript/${ID}`)
    t.match(last, { kind: 'failed', failure: { kind: 'caller', status: 200 } }, 'a failure stays what it was')
  }
  t.equal(ended(plain, {}, target({ delete_after: false })).requests.length, 3)
})

t.test('leaving', async (t) => {
  const abandon = (replies: readonly UpstreamReply[], at = target()) => {
    const { last } = run(replies, {}, at)
    if (last.kind !== 'send' && last.kind !== 'wait') throw new Error('it has ended')
    return transcription.abandon!(JSON.parse(JSON.stringify(last.state)), at)
  }
  t.equal(abandon([]), null, 'nothing is there yet')
  t.equal(abandon([reply(uploaded)]), null)
  const expected = { method: 'DELETE', url: `https://api.assemblyai.com/v2/transcript/${ID}` }
  t.match(abandon([reply(uploaded), reply(queued)]), {
    ...expected,
    headers: { authorization: 'aai-secret' },
  })
  t.match(abandon([reply(uploaded), reply(queued), reply(processing)]), expected)
  t.match(abandon([reply(uploaded), reply(plain)], target({ delete_after: true })), expected)
})
