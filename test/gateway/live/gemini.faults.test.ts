import t from 'tap'
import { gemini } from '../../support/live-gemini.ts'
import { judge } from '../../support/live-judged.ts'

t.test('Gemini: every word once', { timeout: 90_000 }, async (t) => {
  const rows = await judge(t, {
    vendor: gemini('secret'),
    kind: 'gemini',
    model: 'gemini-3.5-transcribe-live',
    apiKey: 'secret',
    basePath: '/v1beta',
    hasTimes: false,
  })
  const { usage } = rows.get('sound')!.done
  t.equal(usage.billable_audio_seconds, usage.audio_seconds, 'paid by the audio')
})
