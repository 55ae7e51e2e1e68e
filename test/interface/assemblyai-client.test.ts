import { createReadStream } from 'node:fs'
import { AssemblyAI } from 'assemblyai'
import t, { type Test } from 'tap'
import { speak } from '../../src/sandbox/speak.ts'
import { startDemoRoute } from '../support/demo-route.ts'
import { HERTZ, type LargeFile, rejectedWith, sendLargeFile } from '../support/large-file.ts'
import { startRouteGateway } from '../support/route-gateway.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { filledWav } from '../support/wav.ts'

const POLLING = { pollingInterval: 50, pollingTimeout: 60_000 }

/** AssemblyAI's own client, changed in nothing but its address and key. */
function clientOf(url: string, apiKey: string) {
  return new AssemblyAI({ apiKey, baseUrl: `${url}/assemblyai` })
}

function today(): string {
  return new Date().toISOString().slice(0, 10)
}

/** The client's error has the text of the answer alone. */
async function refusal(call: Promise<unknown>): Promise<string> {
  return (await rejectedWith(Error, call)).message
}

t.test('a local file of 25 MB, streamed, in flat memory', { timeout: 180_000 }, async (t) => {
  const of = ({ gateway }: LargeFile) => clientOf(gateway.url, gateway.key)
  const warm = (large: LargeFile) =>
    of(large).transcripts.transcribe({ audio: speak('warm', HERTZ, 1) }, POLLING)
  const send = async (large: LargeFile) => {
    const { file, path, text } = large
    const { files, transcripts } = of(large)
    const byPath = await transcripts.transcribe({ audio: path }, POLLING)
    t.match(byPath, { status: 'completed', text })
    t.equal(byPath.words?.length, 680)
    t.equal(byPath.audio_duration, Math.round((file.length - 44) / file.readUInt32LE(28)), 'seconds')
    const url = await files.upload(createReadStream(path) as never)
    t.match(await transcripts.transcribe({ audio: url }, POLLING), { status: 'completed', text }, 'a stream')
    const again = await transcripts.transcribe({ audio_url: url }, POLLING)
    t.match(again, { status: 'completed', text, audio_url: url }, 'the same upload once more')
  }
  await sendLargeFile(t, warm, send, 3)
})

async function startVendor(t: Test) {
  const upstream = await startUpstream(t, { dialect: deepgramDialect() })
  const gateway = await startRouteGateway(t, {
    providers: { deepgram: { kind: 'deepgram', base_url: upstream.url, api_key: '${DG_KEY}' } },
    entries: [{ provider: 'deepgram', model: 'nova-3' }],
    env: { DG_KEY: DEEPGRAM_KEY },
  })
  return { upstream, gateway }
}

t.test('its answers, and what the vendor behind it was asked', { timeout: 60_000 }, async (t) => {
  const { upstream, gateway } = await startVendor(t)
  const { transcripts, files } = clientOf(gateway.url, gateway.key)
  const wav = filledWav(64_000)
  const queued = await transcripts.submit({
    audio: wav,
    speech_models: ['universal'],
    speaker_labels: true,
    redact_pii: true,
    redact_pii_policies: ['credit_card_cvv'],
    keyterms_prompt: ['Larkway'],
    word_boost: ['skylark'],
    language_code: 'en_us',
    temperature: 0.2,
  })
  t.match(queued, { status: 'queued', text: null, words: null, speaker_labels: true, redact_pii: true })
  t.match(queued, { id: /^tj_/, audio_url: /^https:\/\/larkway\.invalid\/upload\/sealed1\./ })
  const done = await transcripts.waitUntilReady(queued.id, POLLING)
  t.match(done, {
    id: queued.id,
    status: 'completed',
    text: /^Heard \w+ as audio\/wav\.$/,
    confidence: 0.9,
    speech_model: 'universal',
    speech_model_used: 'nova-3',
    keyterms_prompt: ['Larkway', 'skylark'],
  })
  const [first, second] = done.words ?? []
  t.match(first, { text: 'Heard', start: 0, confidence: 0.9, speaker: 'A' })
  t.ok(Number.isInteger(second?.start) && (second?.start ?? 0) > 0, 'ms')
  t.match(done.utterances, [{ speaker: 'A', start: 0, words: [{ text: 'Heard' }] }])
  t.match(await transcripts.sentences(queued.id), { id: queued.id, sentences: [{ speaker: 'A', start: 0 }] })
  const { paragraphs } = await transcripts.paragraphs(queued.id)
  t.same(paragraphs.map(({ text }) => text).join(' '), done.text)
  t.match(await transcripts.subtitles(queued.id), /^1\n00:00:00,000 --> /)
  t.match(await transcripts.subtitles(queued.id, 'vtt', 8), /^WEBVTT\n\n[\s\S]*\n\n[\s\S]*-->/)
  const asked = new URL(upstream.received.at(-1)?.path ?? '', 'http://a').searchParams
  t.same(asked.getAll('keyterm'), ['Larkway', 'skylark'])
  t.equal(asked.get('redact'), 'pci')
  t.equal(asked.get('language')?.toLowerCase(), 'en-us')

  await t.test('words are searched for', async (t) => {
    const { words = [] } = done
    const last = words?.length ?? 0
    t.same(await transcripts.wordSearch(queued.id, ['HEARD', 'as audio/wav', 'nothing']), {
      id: queued.id,
      total_count: 2,
      matches: [
        { text: 'heard', count: 1, timestamps: [[words?.[0]?.start, words?.[0]?.end]], indexes: [0] },
        {
          text: 'as audio/wav',
          count: 1,
          timestamps: [[words?.[last - 2]?.start, words?.[last - 1]?.end]],
          indexes: [last - 2],
        },
      ],
    })
    t.match(await refusal(transcripts.wordSearch(queued.id, [' '])), /^INVALID_REQUEST: `words` must/)
    t.match(
      await refusal(transcripts.wordSearch(queued.id, ['a b c d e f'])),
      /^INVALID_REQUEST: `words` must/,
    )
    t.match(await refusal(transcripts.redactedAudio(queued.id)), /^NOT_FOUND: no audio is redacted here/)
  })

  await t.test('lists, page by page, and the other way', async (t) => {
    const made = [queued.id]
    for (let at = 0; at < 4; at += 1) made.push((await transcripts.submit({ audio: wav })).id)
    const newest = made.sort().toReversed()
    const seen: string[] = []
    let page = await transcripts.list({ limit: 2 })
    t.match(page.page_details, { limit: 2, result_count: 2, current_url: '/v2/transcript?limit=2' })
    t.match(page.transcripts[0], { resource_url: `/v2/transcript/${newest[0]}`, error: null })
    for (;;) {
      seen.push(...page.transcripts.map(({ id }) => id))
      if (page.page_details.prev_url === null) break
      page = await transcripts.list(page.page_details.prev_url)
    }
    t.same(seen, newest)
    t.equal(page.page_details.result_count, 1)
    const newer = await transcripts.list(page.page_details.next_url ?? '')
    t.same(
      newer.transcripts.map(({ id }) => id),
      newest.slice(2, 4),
      'the next newer ones',
    )
    for (const id of made) await transcripts.waitUntilReady(id, POLLING)
    const { transcripts: completed } = await transcripts.list({ status: 'completed', created_on: today() })
    t.same(
      completed.map(({ id, status, completed }) => [id, status, completed instanceof Date]),
      newest.map((id) => [id, 'completed', true]),
    )
    t.same((await transcripts.list({ status: 'error' })).transcripts, [])
    t.same((await transcripts.list({ created_on: '2021-02-03' })).transcripts, [])
    t.same((await transcripts.list({ throttled_only: true })).transcripts, [])
    t.same((await transcripts.list({ after_id: newest[0]! })).transcripts, [])
    t.match(await refusal(transcripts.list({ limit: 201 })), /^INVALID_REQUEST: `limit` must/)
    for (const day of ['2021-02-33', '2021-02-30'])
      t.match(await refusal(transcripts.list({ created_on: day })), /`created_on` must/)
    t.match(await refusal(transcripts.list({ before_id: 'me' })), /`before_id` must/)
    t.match(await refusal(transcripts.list({ status: 'done' as never })), /`status` must/)
  })

  await t.test('deletes', async (t) => {
    const audio_url = await files.upload(wav)
    const { id } = await transcripts.transcribe({ audio_url, prompt: 'a secret' }, POLLING)
    const gone = await transcripts.delete(id)
    t.match(gone, { id, status: 'completed', text: 'Deleted by user.', words: null, utterances: null })
    t.match(gone, { audio_url: 'http://deleted_by_user', confidence: null })
    t.same(await transcripts.get(id), gone)
    t.same(await transcripts.delete(id), gone, 'once')
    t.match((await transcripts.list({ limit: 1 })).transcripts, [{ id, audio_url: 'http://deleted_by_user' }])
    t.match(await refusal(transcripts.paragraphs(id)), /^INVALID_REQUEST: the transcript was deleted/)
    t.equal(
      await refusal(transcripts.submit({ audio_url })),
      'INVALID_REQUEST: `audio_url` must be of an upload that was not deleted',
    )
    t.match(await refusal(transcripts.delete('tj_nobody')), /^JOB_NOT_FOUND: /)
  })

  await t.test('deletes a resumable upload with its transcript', async (t) => {
    const authorization = `Bearer ${gateway.key}`
    const created = await fetch(`${gateway.url}/v1/uploads`, {
      method: 'POST',
      headers: {
        ...{ authorization, 'tus-resumable': '1.0.0', 'upload-length': String(wav.length) },
        'content-type': 'application/offset+octet-stream',
      },
      body: new Uint8Array(wav),
    })
    const place = created.headers.get('location') ?? ''
    const look = () =>
      fetch(new URL(place, gateway.url), {
        method: 'HEAD',
        headers: { authorization, 'tus-resumable': '1.0.0' },
      })
    t.equal((await look()).status, 200)
    const audio_url = `https://larkway.invalid/upload/${place.split('/').at(-1)}`
    const { id } = await transcripts.transcribe({ audio_url }, POLLING)
    await transcripts.delete(id)
    t.equal((await look()).status, 404)
  })

  await t.test('what is not served says so as the client reads it', async (t) => {
    const says = async (method: string, path: string) => {
      const asked = await fetch(`${gateway.url}/assemblyai/${path}`, { method })
      return [asked.status, ((await asked.json()) as { error: string }).error]
    }
    const lemur = [
      404,
      'NOT_FOUND: LeMUR is not served here; send the text of the transcript to POST /v1/chat',
    ]
    t.same(await says('POST', 'lemur/v3/generate/task'), lemur)
    t.same(await says('DELETE', 'lemur/v3/one'), lemur)
    t.match(await says('POST', 'v2/realtime/token'), [404, /^NOT_FOUND: streaming/])
    t.match(await says('GET', 'v3/token'), [404, /^NOT_FOUND: streaming/])
  })

  await t.test('refusals, as the client reads them', async (t) => {
    const audio_url = await files.upload(wav)
    t.equal(
      await refusal(transcripts.submit({ audio_url, summarization: true })),
      'INVALID_REQUEST: `summarization` must be left out; transcripts are not analysed here',
    )
    t.equal(
      await refusal(transcripts.submit({ audio_url, redact_pii: true, redact_pii_policies: ['event'] })),
      'INVALID_REQUEST: `redact_pii_policies` must name only policies that `pii`, `phi`, `pci` or `numbers` cover',
    )
    t.match(
      await refusal(transcripts.submit({ audio_url, punctuate: false })),
      /^INVALID_REQUEST: `punctuate`/,
    )
    t.match(await refusal(transcripts.get('tj_nobody')), /^JOB_NOT_FOUND: /)
    t.match(await refusal(clientOf(gateway.url, 'lk_live_wrong').files.upload(wav)), /^UNAUTHENTICATED: /)
    t.match(
      await refusal(transcripts.submit({ audio_url: `${audio_url.slice(0, -2)}AA` })),
      /`audio_url` must be/,
    )
    const elsewhere = 'https://elsewhere.example/a.wav'
    t.match(await refusal(transcripts.submit({ audio_url: elsewhere })), /^AUDIO_URL_REJECTED: /)
    t.match(await refusal(files.upload(Buffer.from('no audio at all'))), /^UNSUPPORTED_AUDIO_FORMAT: /)
  })
})

t.test('an upload without a type, and none where nothing may be kept', async (t) => {
  const gateway = await startDemoRoute(t)
  const upload = (headers: Readonly<Record<string, string>>) =>
    fetch(`${gateway.url}/assemblyai/v2/upload`, {
      method: 'POST',
      headers: { authorization: gateway.key, ...headers },
      body: new Uint8Array(speak('e', HERTZ, 1)),
    })
  t.match(await (await upload({})).json(), { upload_url: /^https:\/\/larkway\.invalid\/upload\// })
  const refused = await upload({ 'x-lk-require': 'retention=zero' })
  t.equal(refused.status, 422)
  t.match(await refused.json(), {
    error: 'REQUIRED_FEATURE_UNAVAILABLE: retention: zero cannot be kept here: an upload outlives its call',
    code: 'REQUIRED_FEATURE_UNAVAILABLE',
  })
})
