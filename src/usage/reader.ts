import { GatewayError } from '../errors.ts'
import type { UsageAnswer, UsageQuestion } from './answer.ts'
import type { AnsweredFile, UsageAnswers } from './table-answers.ts'

/** An object of the store. */
interface StoredFile {
  readonly key: string
  readonly bytes: number
}

/** Files of usage, each with its sums beside it; `UsageLake` is what has them. */
export interface UsageFiles<File extends StoredFile & AnsweredFile> {
  /** Those that have the records of whole days from `fromMs` to `toMs`, exclusive, each record in one of them. */
  files(fromMs: number, toMs: number): Promise<readonly File[]>
  /** For each file the object that has its sums; null where there is none. */
  aggregates(files: readonly File[]): Promise<readonly (StoredFile | null)[]>
  read(file: StoredFile): Promise<Uint8Array<ArrayBuffer>>
  /** The file that an object is, where others can read it; else null. */
  fileOf(file: StoredFile): string | null
  /** Some bytes of an object; `to` is exclusive. */
  readPart(key: string, from: number, to: number): Promise<Uint8Array<ArrayBuffer>>
}

export interface UsageReaderOptions<File extends StoredFile & AnsweredFile> {
  readonly lake: UsageFiles<File>
  /** Makes the sums of a file that has none, or none that can be read. */
  readonly sumUp: (file: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>
  readonly answers: UsageAnswers
}

/** Answers questions of usage. */
export interface UsageReader {
  /**
   * The answer out of all records whose files are in the store.
   *
   * @throws TooManyGroups, GatewayError DEPENDENCY_UNAVAILABLE when the store fails
   */
  ask(question: UsageQuestion): Promise<UsageAnswer>
  /** Answers several over one listing of the store. @throws as `ask` does */
  askAll(questions: readonly UsageQuestion[]): Promise<readonly UsageAnswer[]>
}

/** Files that are read whole at a time, each of which has up to 64 MB: the sums of one are made while another comes. */
const WHOLE_AT_A_TIME = 2

/** Times that a file may be gone which was listed: a merge took its place meanwhile. */
const TRIES = 3

/** Reads the sums of files, which never change, for whoever answers from them. */
export function createUsageReader<File extends StoredFile & AnsweredFile>({
  lake,
  sumUp,
  answers,
}: UsageReaderOptions<File>): UsageReader {
  const lanes: Promise<unknown>[] = Array.from({ length: WHOLE_AT_A_TIME }, async () => {})
  let taken = 0
  function made(file: File): Promise<Uint8Array<ArrayBuffer>> {
    const lane = taken++ % lanes.length
    const sums = lanes[lane]!.then(async () => sumUp(await lake.read(file)))
    lanes[lane] = sums.catch(() => {})
    return sums
  }

  async function answer(questions: readonly UsageQuestion[]): Promise<readonly UsageAnswer[]> {
    const [fromMs, toMs] = [questions.map(({ fromMs }) => fromMs), questions.map(({ toMs }) => toMs)]
    const files = await lake.files(Math.min(...fromMs), Math.max(...toMs))
    const sums = await lake.aggregates(files)
    const answered = files.map(({ key, date }, place) => {
      const own = sums[place] ?? null
      return { key, date, sums: own && lake.fileOf(own) }
    })
    return answers.answerAll(questions, answered, async (place, part) => {
      if (part === 'made') return made(files[place]!)
      const own = sums[place] ?? null
      return own && lake.readPart(own.key, Math.min(part.from, own.bytes), Math.min(part.to, own.bytes))
    })
  }

  const askAll = (questions: readonly UsageQuestion[]) => whileGone(() => answer(questions))
  return { ask: async (question) => (await askAll([question]))[0]!, askAll }
}

/** Does it again, from the listing on, where a file is gone meanwhile. @throws as `work`, the last time too */
export async function whileGone<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let left = TRIES - 1; ; left -= 1) {
    try {
      return await work()
    } catch (error) {
      if (left === 0 || !isGone(error)) throw error
    }
  }
}

/** Whether the store says that there is no such object. */
function isGone(error: unknown): boolean {
  const cause = error instanceof GatewayError ? error.cause : null
  return (
    cause instanceof Error && (cause.name === 'NoSuchKey' || ('code' in cause && cause.code === 'ENOENT'))
  )
}
