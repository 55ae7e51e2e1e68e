import { parseArgs } from 'node:util'

/** A command line that cannot be followed; the message is all that the user sees. */
export class UsageError extends Error {}

/** What was asked for could not be done; the message says why, and is all that the user sees. */
export class CommandFailure extends Error {}

type Flags = NonNullable<Parameters<typeof parseArgs>[0]>['options'] & {}

/** @throws UsageError for a flag that is unknown, and for more than `most` words */
export function parse<const Given extends Flags>(args: readonly string[], options: Given, most: number) {
  try {
    const parsed = parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
    if (parsed.positionals.length <= most) return parsed
  } catch (error) {
    // Behind the first sentence Node explains how a word may begin with a dash, which none does here.
    throw new UsageError(
      error instanceof Error ? `${error.message.split('. ', 1)}` : 'that is no command line',
    )
  }
  throw new UsageError('too many words')
}

const NUMBER_MAX = 1_000_000_000

/** @throws UsageError for a flag that is not there: `command` cannot do without it */
export function required(command: string, name: string, value: string | undefined): string {
  if (value !== undefined) return value
  throw new UsageError(`${command} needs --${name}; see larkway ${command} --help`)
}

/** @throws UsageError that lists the choices */
export function oneOf<const Choice extends string>(
  name: string,
  value: string,
  choices: readonly Choice[],
): Choice {
  const chosen = choices.find((choice) => choice === value)
  if (chosen === undefined) throw new UsageError(`--${name} takes ${choices.join(', ')}`)
  return chosen
}

/** @throws UsageError for what is no number above 0 */
export function number(name: string, value: string | undefined): number | null {
  if (value === undefined) return null
  const amount = Number(value)
  if (!/^\d+(\.\d+)?$/.test(value) || amount <= 0 || amount > NUMBER_MAX)
    throw new UsageError(`--${name} takes a number above 0`)
  return amount
}

/** @throws UsageError for what is no whole number from 1 to `most` */
export function whole(name: string, value: string | undefined, most = NUMBER_MAX): number | null {
  const amount = number(name, value)
  if (amount !== null && (!Number.isInteger(amount) || amount > most))
    throw new UsageError(`--${name} takes a whole number up to ${most}`)
  return amount
}
