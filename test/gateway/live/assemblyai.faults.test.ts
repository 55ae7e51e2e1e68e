import t from 'tap'
import { assemblyai as provider } from '../../../src/gateway/providers/assemblyai/provider.ts'
import { configuredProvider, entry, facts } from '../../support/catalog.ts'
import { assemblyai } from '../../support/live-assemblyai.ts'
import { JUDGED_AUDIO, judge } from '../../support/live-judged.ts'
import { LIVE_FACTS, openLive } from '../../support/live-rig.ts'
import { serveVendor } from '../../support/live-vendor.ts'
import { waitUntil } from '../../support/wait-until.ts'

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

t.test('AssemblyAI is told the end of a session whose caller is gone', async (t) => {
  const { origin, sessions } = await serveVendor(t, assemblyai('secret'))
  const rig = await openLive(
    t,
    [
      entry({
        provider: configuredProvider({ kind: 'assemblyai', baseUrl: origin, credential: 'secret' }),
        model: 'universal-3-6-pro',
        facts: facts({ live: { ...LIVE_FACTS, bills: 'session' } }),
      }),
    ],
    { providers: [provider] },
  )
  const caller = rig.connect()
  await caller.message('ready')
  await caller.speak(JUDGED_AUDIO.pcm.subarray(0, 32_000), 2)
  caller.socket.terminate()
  await waitUntil(() => (sessions[0]?.live.record.end ?? null) !== null)
  // It closes with 1000 behind its summary alone; else it would go on to bill for hours.
  t.match(sessions[0]?.live.record.end, { by: 'sandbox', code: 1000 })
  t.same(sessions[0]?.refused, [])
})
