import { GatewayError } from '../../contracts/errors.ts'
import { type Clock, nextTurn } from '../../contracts/time.ts'
import type { StreamedReply } from '../../gateway/edge/exchange.ts'
import type { LogFormat } from '../../usage/log-report.ts'

/** Rows of an export at most, and how long it may take. */
export const EXPORT_MAX = 100_000
const EXPORT_MS = 120_000

/** Rows that follow those before. */
export interface ExportPart {
  /** Lines of CSV, or items of a JSON array with a comma between two. */
  readonly text: string | Uint8Array
  readonly rows: number
  /** There are others after these. */
  readonly more: boolean
}

export interface ExportedList {
  readonly format: LogFormat
  /** First line of a CSV. */
  readonly head: string
  /** Name of the list in JSON. */
  readonly member: string
  /** The rows that come next, `most` of them at most. */
  readonly next: (most: number) => Promise<ExportPart>
  readonly clock: Clock
}

/** The first `EXPORT_MAX` rows of a list, written while they are sent. */
export async function* exportedList({ format, head, member, next, clock }: ExportedList) {
  const hasTime = timeLeft(clock)
  let rows = 0
  let more = true
  yield format === 'csv' ? head : `{"${member}":[\n`
  while (more && rows < EXPORT_MAX) {
    hasTime()
    const part = await next(EXPORT_MAX - rows)
    if (format === 'json' && rows > 0 && part.rows > 0) yield ',\n'
    yield part.text
    rows += part.rows
    more = part.more
    await nextTurn()
  }
  if (format === 'json') yield `\n],"truncated":${more}}\n`
}

/**
 * Begins the time of an export. Cut short it must not be taken for the whole: what is thrown then cuts the connection.
 *
 * @returns throws GatewayError OVERLOADED once the time is over
 */
export function timeLeft(clock: Clock): () => void {
  const untilMs = clock.now() + EXPORT_MS
  return () => {
    if (clock.now() > untilMs)
      throw new GatewayError('OVERLOADED', 'the export took too long: ask for a shorter time')
  }
}

/** @param name of the file, without its ending */
export function exportReply(
  name: string,
  format: LogFormat,
  stream: AsyncIterable<string | Uint8Array>,
): StreamedReply {
  return {
    status: 200,
    headers: {
      'content-type': format === 'csv' ? 'text/csv; charset=utf-8' : 'application/json',
      'content-disposition': `attachment; filename="${name}.${format}"`,
    },
    body: { stream },
  }
}
