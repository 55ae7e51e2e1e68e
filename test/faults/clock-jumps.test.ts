import t from 'tap'
import { WebSocket } from 'ws'
import { systemClock } from '../../src/contracts/time.ts'
import { liveAudio } from '../support/live-audio.ts'
import { LiveClient } from '../support/live-rig.ts'
import { startRouteGateway } from '../support/route-gateway.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(180_000)

const HOUR_MS = 3_600_000
/** How far the wall clock is off, as it is set forth and back. Timers run on, as those of a machine do. */
const JUMPS_MS = [HOUR_MS, -2 * HOUR_MS, 20 * HOUR_MS, 0]
const LIVE = { features: ['word_timestamps'], hints: [], limits: {}, price: { per_hour_usd: 3.6 } }
const TUS = { 'tus-resumable': '1.0.0', 'content-type': 'application/offset+octet-stream' }

let aheadMs = 0

const rig = await startRouteGateway(t, {
  providers: { sandbox: { kind: 'sandbox' } },
  entries: [
    {
      ...{ provider: 'sandbox', model: 'morse-1', live: LIVE, price: { per_hour_usd: 36 } },
      capabilities: ['audio_input'],
    },
  ],
  credits: 10,
  clock: { ...systemClock, wallNow: () => systemClock.wallNow() + aheadMs },
})
const asked = async (path: string, init: RequestInit = {}) =>
  fetch(rig.url + path, { ...init, headers: { ...rig.authorization, ...init.headers } })
const credits = async () => {
  const { billing } = (await (await asked('/v1/me')).json()) as { billing: { credits_usd: number } }
  return Math.round(billing.credits_usd * 1_000_000)
}

t.test('a live session on credits loses no word and is charged once, however the clock is set', async (t) => {
  const before = await credits()
  const text = Array.from({ length: 6 }, (_, word) => ['sos', 'abc', 'klm', 'xyz'][word % 4]).join(' ')
  const audio = liveAudio(text)
  const address = `${rig.url.replace('http', 'ws')}/v1/transcription/stream?sample_rate=16000`
  const caller = new LiveClient(t, new WebSocket(address, 'larkway.v1', { headers: rig.authorization }))
  await caller.message('ready')
  const piece = Math.ceil(audio.pcm.length / (JUMPS_MS.length + 1) / 3_200) * 3_200
  for (let at = 0; at < audio.pcm.length; at += piece) {
    await caller.speak(audio.pcm.subarray(at, at + piece), 4)
    aheadMs = JUMPS_MS[at / piece] ?? 0
  }
  caller.send({ type: 'end' })
  t.equal(await caller.closed, 1000)
  t.equal(caller.text, text)
  const [done] = caller.of('done')
  const cost = Math.round(Number(done?.cost_usd) * 1_000_000)
  t.equal(cost, Math.round(audio.seconds * 1_000), 'by its seconds of audio')
  t.ok(await waitUntil(async () => before - (await credits()) === cost, 10_000), 'and once')
})

t.test('an upload goes on where it was, and its audio is heard', async (t) => {
  const wav = filledWav(100_000)
  const made = await asked('/v1/uploads', {
    method: 'POST',
    headers: { ...TUS, 'upload-length': String(wav.length) },
  })
  t.equal(made.status, 201)
  const { upload_id: id } = (await made.json()) as { upload_id: string }
  let offset = 0
  const sent = async (until: number) => {
    const response = await asked(`/v1/uploads/${id}`, {
      method: 'PATCH',
      headers: { ...TUS, 'upload-offset': String(offset) },
      body: new Uint8Array(wav.subarray(offset, until)),
    })
    t.equal(response.status, 204, `at ${aheadMs / HOUR_MS} hours`)
    offset = until
  }
  for (const jump of JUMPS_MS) {
    await sent(offset + 10_000)
    aheadMs = jump
    const head = await asked(`/v1/uploads/${id}`, { method: 'HEAD', headers: TUS })
    t.equal(head.headers.get('upload-offset'), String(offset))
  }
  await sent(wav.length)
  const { status } = await rig.post('/v1/transcription', { audio: { upload_id: id } })
  t.equal(status, 200)
})
