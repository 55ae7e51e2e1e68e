import type { CancelSignal } from '../contracts/cancellation.ts'
import { GatewayError } from '../contracts/errors.ts'
import { TooManyGroups, type UsageAnswer, type UsageQuestion } from './answer.ts'
import { AnswerQuery, emptyAnswer, TOO_MANY_GROUPS } from './answer-sql.ts'
import { EngineError, type UsageEngine } from './engine.ts'
import type { UsageLake } from './lake.ts'

export interface UsageReaderOptions {
  readonly lake: Pick<UsageLake, 'files' | 'hold'>
  readonly engine: Pick<UsageEngine, 'run'>
}

/** Answers questions of usage. */
export interface UsageReader {
  /**
   * The answer out of all records whose files are in the store.
   *
   * @throws TooManyGroups; GatewayError DEPENDENCY_UNAVAILABLE when the store fails, OVERLOADED when too many wait
   */
  ask(question: UsageQuestion, signal?: CancelSignal): Promise<UsageAnswer>
}

/** Times that a file may be gone which was listed: a merge took its place meanwhile. */
const TRIES = 3

export function createUsageReader({ lake, engine }: UsageReaderOptions): UsageReader {
  const ask = (question: UsageQuestion, signal?: CancelSignal) =>
    whileGone(async () => {
      const held = await lake.hold(await lake.files(question.fromMs, question.toMs))
      try {
        return await answerFrom(question, held.paths, engine, signal)
      } finally {
        held.release()
      }
    })
  return { ask }
}

async function answerFrom(
  question: UsageQuestion,
  paths: readonly string[],
  engine: UsageReaderOptions['engine'],
  signal: CancelSignal | undefined,
): Promise<UsageAnswer> {
  if (paths.length === 0) return emptyAnswer(question)
  const query = new AnswerQuery(question, paths)
  try {
    return query.answer(await engine.run(query.statements, { signal }))
  } catch (error) {
    if (error instanceof EngineError && error.message.includes(TOO_MANY_GROUPS))
      throw new TooManyGroups(error.message)
    throw error
  }
}

/** Does it again, from the listing on, where a file is gone meanwhile. @throws as `work`, the last time too */
export async function whileGone<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let left = TRIES - 1; ; left -= 1) {
    try {
      return await work()
    } catch (error) {
      if (left === 0 || !isFileGone(error)) throw error
    }
  }
}

/** Whether the store, or DuckDB, says that there is no such file. */
function isFileGone(error: unknown): boolean {
  if (error instanceof EngineError) return /No such file|No files found/.test(error.message)
  const cause = error instanceof GatewayError ? error.cause : null
  return (
    cause instanceof Error && (cause.name === 'NoSuchKey' || ('code' in cause && cause.code === 'ENOENT'))
  )
}
