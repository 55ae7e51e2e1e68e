import { parseArgs } from 'node:util'

/** A command line that cannot be followed; the message is all that the user sees. */
export class UsageError extends Error {}

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
