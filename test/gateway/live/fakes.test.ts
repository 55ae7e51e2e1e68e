import t, { type Test } from 'tap'
import { framesOf, liveAudio, silence } from '../../support/live-audio.ts'
import { LiveClient, refusedHandshake } from '../../support/live-client.ts'
import { mistral } from '../../support/live-mistral.ts'
import { speaches } from '../../support/live-speaches.ts'
import { type LiveVendor, serveVendor } from '../../support/live-vendor.ts'
import { vllm } from '../../support/live-vllm.ts'

// Vendors without a client here that could judge their fakes: what each is to refuse.
const headers = { authorization: 'Bearer secret' }
const audio = silence(0.1).toString('base64')

async function open(t: Test, vendor: LiveVendor, path: string) {
  const { origin, sessions } = await serveVendor(t, vendor)
  const url = `${origin.replace('http', 'ws')}${path}`
  const client = await new LiveClient(url, [], { headers }).open()
  t.teardown(() => client.socket.terminate())
  await client.until('session.created')
  return { url, client, session: sessions[0]! }
}

const append = (type: string, pcm: Buffer, sampleRate = 16_000) =>
  [...framesOf({ pcm, sampleRate, seconds: 0, words: [] }, 100)].map((one) => ({
    type,
    audio: one.toString('base64'),
  }))

t.test('Mistral', async (t) => {
  const path = '/v1/audio/transcriptions/realtime?model=voxtral-mini-transcribe-realtime-3'
  const update = (audio_format: object) => ({ type: 'session.update', session: { audio_format } })
  const { url, client } = await open(t, mistral('secret'), path)
  t.match(await refusedHandshake(url), { status: 401 })
  client.send(update({ encoding: 'pcm_s16le', sample_rate: 16_000 }))
  await client.until('session.updated')
  for (const message of append('input_audio.append', liveAudio('it is me', { speed: 2 }).pcm))
    client.send(message)
  client.send({ type: 'input_audio.end' })
  t.match(await client.until('transcription.done'), { text: 'it is me' })
  t.equal(
    client
      .ofType('transcription.text.delta')
      .map(({ text }) => text)
      .join(''),
    'it is me',
  )
  t.match(await client.ended, { code: 1000 })
  for (const messages of [
    [silence(0.1)],
    [{ type: 'input_audio_buffer.append', audio }],
    [{ type: 'input_audio.append', audio: '' }],
    [{ type: 'input_audio.append', audio: silence(9).toString('base64') }],
    [update({ encoding: 'opus', sample_rate: 16_000 })],
    [update({ encoding: 'pcm_s16le', sample_rate: 24_000 })],
    [{ type: 'input_audio.append', audio }, update({ encoding: 'pcm_s16le', sample_rate: 16_000 })],
  ]) {
    const one = await open(t, mistral('secret'), path)
    for (const message of messages) one.client.send(message)
    await one.client.until('error')
    t.match(await one.client.ended, { code: 1008 })
  }
})

t.test('vLLM', async (t) => {
  const { url, client, session } = await open(t, vllm('secret', 'large'), '/v1/realtime')
  t.match(await refusedHandshake(url), { status: 401 })
  const commit = { type: 'input_audio_buffer.commit' }
  const final = { ...commit, final: true }
  for (const [count, message] of [
    commit,
    { type: 'session.update' },
    { type: 'session.update', model: 'other' },
    { type: 'input_audio.append', audio },
    { type: 'input_audio_buffer.append', audio: 'AAAA' },
  ].entries()) {
    client.send(message)
    await client.until('error', count + 1)
  }
  client.send({ type: 'session.update', model: 'large' })
  client.send(commit)
  const said = append('input_audio_buffer.append', liveAudio('it is me', { speed: 2 }).pcm)
  for (const message of said) client.send(message)
  client.send(final)
  // The transcript is not here yet: this is lost.
  for (const message of said) client.send(message)
  t.match(await client.until('transcription.done'), { text: 'it is me' })
  t.match(session.refused.at(-1), /pieces of audio thrown away$/)
  client.send(final)
  client.send(commit)
  t.match(
    await client.until('transcription.done', 2),
    { text: '' },
    'a mark that nobody read ends the next one',
  )
})

t.test('speaches', async (t) => {
  const { url, client } = await open(t, speaches('secret'), '/v1/realtime?intent=transcription&model=large')
  t.match(await refusedHandshake(url), { status: 403 })
  t.match(await refusedHandshake(url.replace('&model=large', ''), [], { headers }), { status: 422 })
  client.send({ type: 'input_audio_buffer.commit' })
  t.match(await client.until('error'), { error: { message: /^Error committing input audio buffer: / } })
  client.send({ type: 'conversation.create' })
  await client.until('error', 2)
  const said = Buffer.concat([
    liveAudio('it is me', { speed: 2, sampleRate: 24_000 }).pcm,
    silence(1, 24_000),
  ])
  for (let time = 0; time < 2; time += 1)
    for (const message of append('input_audio_buffer.append', said, 24_000)) client.send(message)
  const completed = 'conversation.item.input_audio_transcription.completed'
  t.match(await client.until(completed, 2), { transcript: 'it is me' })
  const [first, second] = client.ofType('input_audio_buffer.speech_started')
  t.ok(Number(second?.audio_start_ms) < 1000, 'times begin at nothing in every utterance')
  t.not(first?.item_id, second?.item_id)
})
