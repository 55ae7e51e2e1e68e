import type { Scope } from '../../../../../schema/catalog.ts'

/** A key as it is typed in. Empty texts are not sent: then the defaults of the configuration hold. */
export interface KeyForm {
  readonly name: string
  readonly app: string
  readonly scopes: readonly Scope[]
  readonly requestsPerMinute: string
  readonly burst: string
  readonly budgetUsd: string
  /** As `<input type="date">` has it, e.g. 2027-01-31; the key ends when that day has ended, in UTC. */
  readonly expires: string
}

export interface NewKeyBody {
  readonly name: string
  readonly app: string
  readonly scopes: readonly Scope[]
  readonly rate_limit?: { readonly requests_per_minute: number; readonly burst: number }
  readonly budget_usd_per_month?: number
  readonly expires_at?: string
}

/** Why a field cannot be sent, by its name in the form. */
export type KeyFaults = Readonly<Partial<Record<keyof KeyForm, string>>>

const NAME_LENGTH_MAX = 128

/** The body for the API, or what is to be mended first. */
export function newKeyOf(
  form: KeyForm,
  nowMs: number,
): { readonly body: NewKeyBody } | { readonly faults: KeyFaults } {
  const name = form.name.trim()
  const perMinute = wholeOf(form.requestsPerMinute, 100_000_000)
  const burst = wholeOf(form.burst, 100_000)
  const budget = form.budgetUsd.trim() === '' ? null : Number(form.budgetUsd)
  const endsMs = form.expires === '' ? null : Date.parse(`${form.expires}T23:59:59Z`)
  const faults: KeyFaults = {
    ...(name === '' ? { name: 'Enter a name.' } : {}),
    ...([...name].length > NAME_LENGTH_MAX ? { name: `Use at most ${NAME_LENGTH_MAX} characters.` } : {}),
    ...(form.app === '' ? { app: 'Choose an app.' } : {}),
    ...(form.scopes.length === 0 ? { scopes: 'Choose at least one.' } : {}),
    ...(perMinute === undefined ? { requestsPerMinute: 'Enter a whole number, 1 or more.' } : {}),
    ...(burst === undefined ? { burst: 'Enter a whole number from 1 to 100,000.' } : {}),
    ...(perMinute === null && burst !== null ? { requestsPerMinute: 'Required with a burst.' } : {}),
    ...(burst === null && perMinute !== null ? { burst: 'Required with a rate.' } : {}),
    ...(budget !== null && !(budget >= 0 && budget <= 1e9)
      ? { budgetUsd: 'Enter an amount in USD, 0 or more.' }
      : {}),
    ...(endsMs !== null && !(endsMs > nowMs) ? { expires: 'Choose today or a later date.' } : {}),
  }
  if (Object.keys(faults).length > 0) return { faults }
  return {
    body: {
      name,
      app: form.app,
      scopes: form.scopes,
      ...(perMinute == null || burst == null
        ? {}
        : { rate_limit: { requests_per_minute: perMinute, burst } }),
      ...(budget === null ? {} : { budget_usd_per_month: budget }),
      ...(endsMs === null ? {} : { expires_at: new Date(endsMs).toISOString() }),
    },
  }
}

/** Null: left empty; undefined: no such number. */
function wholeOf(text: string, max: number): number | null | undefined {
  if (text.trim() === '') return null
  const number = Number(text)
  return Number.isInteger(number) && number >= 1 && number <= max ? number : undefined
}
