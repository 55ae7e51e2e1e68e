import t from 'tap'
import { elevenlabs } from '../../support/live-elevenlabs.ts'
import { judge, ROWS } from '../../support/live-judged.ts'

const JUDGED = { kind: 'elevenlabs', model: 'scribe_v2_realtime', apiKey: 'secret', hasTimes: true }
const PER_HOUR_USD = 0.39

t.test('ElevenLabs: every word once and in time, paid by the audio', async (t) => {
  const rows = await judge(t, { ...JUDGED, vendor: elevenlabs('secret') })
  const { done } = rows.get('sound')!
  const { audio_seconds: heard, billable_audio_seconds: billed } = done.usage
  t.equal(billed, heard)
  t.ok(Math.abs(done.cost_usd - (billed / 3600) * PER_HOUR_USD) < 0.000_002, `${done.cost_usd} USD`)
})

t.test('ElevenLabs: transcripts whose times come first, and a caller that pauses', async (t) => {
  const rows = [...ROWS.slice(0, 2), { name: 'a pause', faults: '', switches: 0, pauseMs: 8_000 }]
  // Its patience is 15 s; the pause would have to be as much longer.
  await judge(t, { ...JUDGED, vendor: elevenlabs('secret', { timedFirst: true, idleSeconds: 6.5 }) }, rows)
})
