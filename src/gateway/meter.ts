import type { Audio } from '../schema/audio.ts'
import type { Price } from '../schema/provider.ts'

/** Metering values of an answer, in wire names. */
export type Usage = Readonly<Record<string, number | null>>

export interface Metered {
  readonly usage: Usage
  /** At most 6 decimals; null when the price or the measure is unknown. */
  readonly costUsd: number | null
  readonly warnings: readonly string[]
}

/**
 * Seconds are read from the file, whatever the provider reports; only where the file does not tell, the
 * provider's figure stands in, with a warning.
 */
export function meterTranscription(
  audio: Audio,
  reportedSeconds: number | null,
  price: Price | null,
): Metered {
  const warnings: string[] = []
  const seconds = audio.durationSeconds ?? reportedSeconds
  if (audio.durationSeconds === null) {
    warnings.push(
      seconds === null
        ? 'usage.audio_seconds: the file does not tell its duration, nor does the provider'
        : 'usage.audio_seconds: the file does not tell its duration; this is what the provider reports',
    )
  }
  const billable = seconds === null ? null : Math.max(seconds, price?.minimum_seconds ?? 0)
  const hourly = price?.per_hour_usd
  if (hourly === undefined) warnings.push('cost_usd: the price of this model is not known')
  return {
    usage: {
      audio_seconds: round(seconds, 3),
      billable_audio_seconds: round(billable, 3),
      total_tokens: 0,
    },
    costUsd: hourly === undefined || billable === null ? null : round((billable / 3600) * hourly, 6),
    warnings,
  }
}

/** Characters are Unicode code points of the input. */
export function meterSpeech(characters: number, price: Price | null): Metered {
  const perThousand = price?.per_1k_characters_usd
  return {
    usage: { audio_output_characters: characters, total_tokens: 0 },
    costUsd: perThousand === undefined ? null : round((characters / 1000) * perThousand, 6),
    warnings: perThousand === undefined ? ['cost_usd: the price of this model is not known'] : [],
  }
}

function round<Value extends number | null>(value: Value, decimals: number): Value {
  if (value === null) return value
  const scale = 10 ** decimals
  return (Math.round(value * scale) / scale) as Value
}
