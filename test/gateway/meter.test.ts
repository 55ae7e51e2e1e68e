import t from 'tap'
import { formatDuration } from '../../src/gateway/admit.ts'
import { countCharacters } from '../../src/gateway/eligibility.ts'
import { meterSpeech, meterTranscription } from '../../src/gateway/meter.ts'
import { audio } from '../support/call.ts'

t.test('speech is priced by the character, a character being a code point', async (t) => {
  const rows = [
    [1000, 0.05, 0.05],
    [1000, 0.1, 0.1],
    [1, 0.05, 0.00005],
    [0, 0.05, 0],
    [123_457, 0.015, 1.851855],
  ] as const
  for (const [characters, perThousand, usd] of rows) {
    const metered = meterSpeech(characters, { per_1k_characters_usd: perThousand })
    t.equal(metered.costUsd, usd)
    t.same(metered.usage, { audio_output_characters: characters, total_tokens: 0 })
  }
  t.equal(countCharacters('héllo 👋🏽'), 8)
})

t.test('a transcription is metered in seconds of the file, whatever the provider says', async (t) => {
  const rows = [
    // file, reported, price, audio_seconds, billable_audio_seconds, cost_usd, warnings
    [3600, 1, { per_hour_usd: 0.22 }, 3600, 3600, 0.22, 0],
    [3600, null, { per_hour_usd: 0.22, minimum_seconds: 10 }, 3600, 3600, 0.22, 0],
    [2.5, null, { per_hour_usd: 0.36, minimum_seconds: 10 }, 2.5, 10, 0.001, 0],
    [0.12345, null, { per_hour_usd: 3600 }, 0.123, 0.123, 0.12345, 0],
    [null, 30, { per_hour_usd: 0.12 }, 30, 30, 0.001, 1],
    [null, null, { per_hour_usd: 0.12 }, null, null, null, 1],
    [60, null, null, 60, 60, null, 1],
  ] as const
  for (const [file, reported, price, seconds, billable, usd, warnings] of rows) {
    const metered = meterTranscription(audio({ durationSeconds: file }), reported, price)
    t.same(metered.usage, { audio_seconds: seconds, billable_audio_seconds: billable, total_tokens: 0 })
    t.equal(metered.costUsd, usd)
    t.equal(metered.warnings.length, warnings)
  }
})

t.test('durations in the form of the rate-limit headers', async (t) => {
  const rows = [
    [0, '0ms'],
    [99.2, '100ms'],
    [1000, '1s'],
    [1001, '2s'],
    [360_000, '6m0s'],
    [3_661_000, '1h1m1s'],
  ] as const
  for (const [milliseconds, text] of rows) t.equal(formatDuration(milliseconds), text)
})
