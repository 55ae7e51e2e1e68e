import { readWhole, UNITS_PER_MINUTE_MAX } from '../fields.ts'
import type { Form, Issues } from '../form.ts'
import { h } from '../h.ts'
import { OPTIONAL_NUMBER, TextInput } from './field.ts'

/** Limits of tokens and of audio, as typed; empty: none. */
export interface UnitLimits {
  readonly tokensPerMinute: string
  readonly audioSecondsPerMinute: string
}

/** The same as the API has them. */
interface UnitRates {
  readonly tokens_per_minute?: number
  readonly audio_seconds_per_minute?: number
}

/** @param rates 0, like an absent one, is no limit */
export function unitLimits(rates: UnitRates | null): UnitLimits {
  return {
    tokensPerMinute: String(rates?.tokens_per_minute || ''),
    audioSecondsPerMinute: String(rates?.audio_seconds_per_minute || ''),
  }
}

export function unitLimitIssues(fields: UnitLimits): Issues<UnitLimits> {
  const message = 'Enter a whole number, 1 or more.'
  const { tokensPerMinute, audioSecondsPerMinute } = fields
  return {
    ...(readUnits(tokensPerMinute) === null ? { tokensPerMinute: message } : {}),
    ...(readUnits(audioSecondsPerMinute) === null ? { audioSecondsPerMinute: message } : {}),
  }
}

/** Limits without issues for the API. */
export function unitRates(fields: UnitLimits): UnitRates {
  const tokens = readUnits(fields.tokensPerMinute)
  const seconds = readUnits(fields.audioSecondsPerMinute)
  return {
    ...(tokens == null ? {} : { tokens_per_minute: tokens }),
    ...(seconds == null ? {} : { audio_seconds_per_minute: seconds }),
  }
}

const readUnits = (text: string) => readWhole(text, UNITS_PER_MINUTE_MAX)

export function UnitLimitInputs({ bind }: Pick<Form<UnitLimits>, 'bind'>) {
  return [
    h(TextInput, { label: 'Tokens/min', ...OPTIONAL_NUMBER, ...bind('tokensPerMinute') }),
    h(TextInput, { label: 'Audio/min', ...OPTIONAL_NUMBER, suffix: 's', ...bind('audioSecondsPerMinute') }),
  ]
}
