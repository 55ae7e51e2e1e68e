import { parseArgs } from 'node:util'

/** A command line that cannot be followed; its message is all that the user sees. */
export class UsageError extends Error {}

/** A command that failed or was refused; its message says why, and is all that the user sees. */
export class CommandFailure extends Error {}

type Flags = NonNullable<Parameters<typeof parseArgs>[0]>['options'] & {}

/** @throws UsageError for an unknown flag, and for more than `most` arguments */
export function parse<const Given extends Flags>(args: readonly string[], options: Given, most: number) {
  const parsed = parsedArgs(args, options)
  const surplus = parsed.positionals[most]
  if (surplus !== undefined) throw new UsageError(`unexpected argument "${surplus}"`)
  return parsed
}

function parsedArgs<const Given extends Flags>(args: readonly string[], options: Given) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    // Behind the first sentence Node explains how an argument may begin with a dash, which none does here.
    throw new UsageError(error instanceof Error ? `${error.message.split('. ', 1)}` : 'invalid command line')
  }
}

const NUMBER_MAX = 1_000_000_000

/** @throws UsageError for a missing flag that `command` requires */
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
  if (chosen === undefined) throw new UsageError(`--${name} must be one of ${choices.join(', ')}`)
  return chosen
}

/** @throws UsageError unless the value is a number above 0 */
export function number(name: string, value: string | undefined): number | null {
  if (value === undefined) return null
  const amount = Number(value)
  if (!/^\d+(\.\d+)?$/.test(value) || amount <= 0 || amount > NUMBER_MAX)
    throw new UsageError(`--${name} must be a number above 0`)
  return amount
}

/** @throws UsageError unless the value is a whole number from 1 to `most` */
export function whole(name: string, value: string | undefined, most = NUMBER_MAX): number | null {
  const amount = number(name, value)
  if (amount !== null && (!Number.isInteger(amount) || amount > most))
    throw new UsageError(`--${name} must be a whole number from 1 to ${most}`)
  return amount
}

/** Columns as wide as their widest cell, with the first row as the head. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
  return `${lines.map((line) => line.trimEnd()).join('\n')}\n`
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

/** A time in RFC 3339; null stays null. */
export function rfc3339<Ms extends number | null>(ms: Ms): Ms extends null ? Ms & null : string {
  return (ms === null ? null : new Date(ms).toISOString()) as Ms extends null ? Ms & null : string
}
