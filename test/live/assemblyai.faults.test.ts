import t from 'tap'
import { assemblyai } from '../support/live-assemblyai.ts'
import { judge } from '../support/live-judged.ts'

const PER_HOUR_USD = 0.45

t.test('AssemblyAI: every word once, in time, and paid by the clock', { timeout: 60_000 }, async (t) => {
  const rows = await judge(t, {
    vendor: assemblyai('secret'),
    kind: 'assemblyai',
    model: 'universal-3-6-pro',
    apiKey: 'secret',
    hasTimes: true,
  })
  // The vendor bills the open socket: https://www.assemblyai.com/docs/faq on session-based pricing
  const { done, server } = rows.get('sound')!
  const [session] = server.sessions
  const billed = done.usage.billable_audio_seconds
  t.ok(Math.abs(billed - session!.openSeconds) < 0.3, `billed ${billed} s of ${session!.openSeconds} s`)
  t.ok(Math.abs(done.cost_usd - (billed / 3600) * PER_HOUR_USD) < 0.000_002, `${done.cost_usd} USD`)
})
