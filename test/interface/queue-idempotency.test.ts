import t from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import type { Jobs } from '../../src/contracts/jobs.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { type Enqueued, QUEUE_KEY, startQueueApi } from './queue-api.ts'

const REPLAY = 'x-lk-idempotent-replay'
const SPEECH = { endpoint: 'speech', payload: { input: 'hello' } }

function idOf({ body }: Enqueued): string | undefined {
  return body.job?.id
}

function isReplay({ status, headers }: Enqueued): boolean {
  return status === 200 && headers.get(REPLAY) === 'true'
}

t.test('the same enqueue again answers with the first job', async (t) => {
  const api = await startQueueApi(t)
  const first = await api.post({ ...SPEECH, idempotency_key: 'k', mode: 'bulk' })
  t.match([first.status, first.headers.get(REPLAY)], [202, null])
  const others: [string, object, Record<string, string>?][] = [
    ['the same', { ...SPEECH, idempotency_key: 'k', mode: 'bulk' }],
    ['in another mode', { ...SPEECH, idempotency_key: 'k', mode: 'priority' }],
    ['with the key in the header', SPEECH, { 'idempotency-key': 'k' }],
    ['with a quoted key in the header', SPEECH, { 'idempotency-key': '"k"' }],
    ['with a header that is outdone', { ...SPEECH, idempotency_key: 'k' }, { 'idempotency-key': 'other' }],
    [
      'with defaults written out',
      { endpoint: 'speech', payload: { seed: null, input: 'hello' }, idempotency_key: 'k' },
    ],
    [
      'with what is ignored',
      { endpoint: 'speech', payload: { input: 'hello', model: 'x' }, idempotency_key: 'k' },
    ],
  ]
  for (const [what, body, headers] of others) {
    const again = await api.post(body, headers)
    t.ok(isReplay(again), what)
    t.strictSame(again.body, first.body, `${what}: the first answer`)
  }
  t.equal(await api.jobs.waiting(), 1)
})

t.test('anything else is another job', async (t) => {
  const api = await startQueueApi(t)
  const chat = { messages: [{ role: 'user', content: 'hi' }] }
  const audio = filledWav(80_044, 1).toString('base64')
  const different: [object, Record<string, string>?][] = [
    [SPEECH],
    [{ endpoint: 'speech', payload: { input: 'Hello' } }],
    [{ endpoint: 'speech', payload: { input: 'hello', speed: 2 } }],
    [{ endpoint: 'audio', payload: { task: 'speech', input: 'hello' } }],
    [{ endpoint: 'chat', payload: chat }],
    [{ endpoint: 'vision', payload: { prompt: 'hi', images: ['https://example.com/a.png'] } }],
    [{ endpoint: 'complete', payload: { prompt: 'hello' } }],
    [{ endpoint: 'image', payload: { prompt: 'hello' } }],
    [{ endpoint: 'video', payload: { prompt: 'hello' } }],
    [SPEECH, { 'x-lk-purpose': 'calls' }],
    [{ endpoint: 'speech', payload: { input: 'hello', response_profile: 'fast' } }],
    [{ endpoint: 'transcription', payload: { audio } }],
    [{ endpoint: 'translation', payload: { audio } }],
    [{ endpoint: 'audio', payload: { audio } }],
    [{ endpoint: 'transcription', payload: { audio, language: 'en' } }],
    [{ endpoint: 'transcription', payload: { audio: filledWav(80_044, 2).toString('base64') } }],
  ]
  const ids = new Set<string | undefined>()
  for (const round of [1, 2]) {
    for (const [body, headers] of different) {
      const answer = await api.post({ ...body, idempotency_key: 'k' }, headers)
      t.equal(isReplay(answer), round === 2, JSON.stringify(body).slice(0, 80))
      ids.add(idOf(answer))
    }
    t.equal(ids.size, different.length)
  }
  const isKept = async () => (await api.kept()).length === 5
  t.ok(await waitUntil(isKept), 'of the audio that came again nothing is kept')
  t.equal(api.budgetUsed(), 0)

  ids.clear()
  for (const key of ['a', 'b']) ids.add(idOf(await api.post({ ...SPEECH, idempotency_key: key })))
  ids.add(
    idOf(
      await api.post(
        { ...SPEECH, idempotency_key: 'a' },
        { authorization: api.admit({ app: { id: 'mobile' } }) },
      ),
    ),
  )
  ids.add(idOf(await api.post(SPEECH)))
  ids.add(idOf(await api.post(SPEECH)))
  t.equal(ids.size, 5, 'other keys, other apps, no key')
  const colleague = api.admit({ key: { ...QUEUE_KEY, id: 'key_other' } })
  t.ok(
    isReplay(await api.post({ ...SPEECH, idempotency_key: 'a' }, { authorization: colleague })),
    'another key of the app',
  )
})

t.test('order and spelling of a payload do not matter, an alias neither', async (t) => {
  const api = await startQueueApi(t)
  const wav = filledWav(3_244, 1)
  const schema = '"response_schema":{"type":"object","required":["a","b"]}'
  const turned = '"response_schema":{"required":["a","b"],"type":"object"}'
  const pairs: [string, string][] = [
    ['{"endpoint":"embed","payload":{"input":"a"}}', '{"payload":{"input":["a"]},"endpoint":"embeddings"}'],
    [
      `{"endpoint":"chat","payload":{"messages":[{"role":"user","content":"é"}],${schema}}}`,
      `{"endpoint":"chat","payload": { ${turned},"messages":[{"content":"\\u00e9","role":"user"}]}}`,
    ],
    [
      JSON.stringify({
        endpoint: 'transcription',
        payload: { audio: wav.toString('base64'), language: 'en' },
      }),
      JSON.stringify({
        endpoint: 'transcription',
        payload: { language: 'en', audio: { data: wav.toString('base64url'), filename: 'b' } },
      }),
    ],
  ]
  for (const [one, other] of pairs) {
    const key = { 'idempotency-key': 'k' }
    const first = await api.post(one, key)
    t.equal(first.status, 202, JSON.stringify(first.body.error))
    const again = await api.post(other, key)
    t.ok(isReplay(again))
    t.equal(idOf(again), idOf(first))
  }
  const otherSchema = schema.replace('"a","b"', '"b","a"')
  const listed = `{"endpoint":"chat","payload":{"messages":[{"role":"user","content":"é"}],${otherSchema}}}`
  t.equal((await api.post(listed, { 'idempotency-key': 'k' })).status, 202, 'the order of a list does')
})

t.test('of many at once one is the job', async (t) => {
  const api = await startQueueApi(t)
  const audio = filledWav(60_044, 1).toString('base64')
  for (const body of [
    { endpoint: 'transcription', payload: { audio } },
    { endpoint: 'complete', payload: { prompt: 'x'.repeat(200_000) } },
  ]) {
    const answers = await Promise.all(
      Array.from({ length: 24 }, () => api.post({ ...body, idempotency_key: 'k' })),
    )
    t.equal(new Set(answers.map(idOf)).size, 1)
    t.equal(answers.filter(({ status }) => status === 202).length, 1)
    t.equal(answers.filter(isReplay).length, 23)
  }
  t.ok(await waitUntil(async () => (await api.kept()).length === 2), 'the losers leave nothing')
  t.equal(await api.jobs.waiting(), 2)
})

t.test('the answer of the state is lost', async (t) => {
  const away = new GatewayError('DEPENDENCY_UNAVAILABLE')
  const losses = { before: 0, after: 0 }
  const between = (jobs: Jobs): Jobs => ({
    ...jobs,
    async submit(submission) {
      if (losses.before-- > 0) throw away
      const submitted = await jobs.submit(submission)
      if (losses.after-- > 0) throw away
      return submitted
    },
  })
  const api = await startQueueApi(t, { between })
  const audio = filledWav(60_044, 1).toString('base64')
  const body = { endpoint: 'transcription', payload: { audio } }
  for (const [before, after] of [
    [2, 0],
    [0, 1],
    [1, 3],
  ] as const) {
    for (const key of [undefined, `${before} ${after}`.replace(' ', '-')]) {
      Object.assign(losses, { before, after })
      const answer = await api.post({ ...body, idempotency_key: key })
      t.equal(answer.status, 202, `${before} lost before and ${after} after it was done, key ${key}`)
      t.equal((await api.jobs.get(idOf(answer) ?? ''))?.status, 'queued')
    }
  }
  t.equal(await api.jobs.waiting(), 6)
  t.equal((await api.kept()).length, 6)

  Object.assign(losses, { before: 0, after: Number.POSITIVE_INFINITY })
  const startedAtMs = performance.now()
  const lost = await api.post({ ...body, idempotency_key: 'lost' })
  t.match([lost.status, lost.body.error?.code], [503, 'DEPENDENCY_UNAVAILABLE'])
  t.ok(performance.now() - startedAtMs > 3_000, 'it was tried for a while')
  losses.after = 0
  const again = await api.post({ ...body, idempotency_key: 'lost' })
  t.ok(isReplay(again), 'it was done all the same')
  const job = await api.jobs.get(idOf(again) ?? '')
  const key = job !== null && 'audio' in job.work && 'source' in job.work.audio && job.work.audio.source
  t.match(key, { kind: 'object' })
  t.ok(key && key.kind === 'object' && (await api.kept()).includes(key.key), 'and its audio is there')
  t.equal(await api.jobs.waiting(), 7)
})

t.test('a store that fails takes no job', async (t) => {
  const api = await startQueueApi(t)
  const { objects } = api.dependencies.jobs
  const fail = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))
  const { keepPayload } = objects
  Object.assign(objects, { keepPayload: fail })
  const answer = await api.post({ ...SPEECH, idempotency_key: 'k' })
  t.match([answer.status, answer.body.error?.code], [503, 'DEPENDENCY_UNAVAILABLE'])
  t.equal(await api.jobs.waiting(), 0)
  Object.assign(objects, { keepPayload })
  t.equal((await api.post({ ...SPEECH, idempotency_key: 'k' })).status, 202, 'the key is not used up')
})

t.test('the record of the first job is gone', async (t) => {
  const between = (jobs: Jobs): Jobs => ({
    ...jobs,
    async submit(submission) {
      const submitted = await jobs.submit(submission)
      return submitted.state === 'accepted' ? { ...submitted, job: null } : submitted
    },
  })
  const api = await startQueueApi(t, { between })
  const beforeMs = Date.now()
  const first = await api.post({ ...SPEECH, idempotency_key: 'k' })
  const createdAtMs = Date.parse(first.body.job?.created_at ?? '')
  t.ok(createdAtMs >= beforeMs && createdAtMs <= Date.now(), 'its id has when it was made')
  const again = await api.post({ ...SPEECH, idempotency_key: 'k' })
  t.ok(isReplay(again))
  t.strictSame(again.body, first.body)
})
