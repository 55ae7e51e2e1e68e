import t from 'tap'
import { type JudgedVendor, judge } from '../../support/live-judged.ts'
import { mistral } from '../../support/live-mistral.ts'
import { speaches } from '../../support/live-speaches.ts'
import { vllm } from '../../support/live-vllm.ts'

const OWN = { kind: 'openai-compatible', apiKey: 'secret', basePath: '/v1', hasTimes: false }
const unlisted = (live_protocol: string) => ({
  options: { live_protocol },
  capabilities: ['audio_input'],
  price: { per_hour_usd: 0.36 },
  live: { features: [], hints: ['language'], limits: {}, price: { per_hour_usd: 0.36 } },
})

const VENDORS: Readonly<Record<string, JudgedVendor>> = {
  Mistral: {
    vendor: mistral('secret'),
    kind: 'mistral',
    model: 'voxtral-mini-transcribe-realtime-3',
    apiKey: 'secret',
    basePath: '/v1',
    hasTimes: false,
    // Its text belongs to no audio.
    slack: 2.5,
  },
  vLLM: { ...OWN, vendor: vllm('secret', 'large'), model: 'large', entry: unlisted('vllm') },
  // It tells no times of the session: they are taken from what was sent when it spoke.
  speaches: { ...OWN, vendor: speaches('secret'), model: 'large', entry: unlisted('speaches'), slack: 0.3 },
}

for (const [name, vendor] of Object.entries(VENDORS))
  t.test(`${name}: every word once`, { timeout: 90_000 }, async (t) => {
    const rows = await judge(t, vendor)
    const { usage } = rows.get('sound')!.done
    t.equal(usage.billable_audio_seconds, usage.audio_seconds, 'paid by the audio')
  })
