import { pino, stdSerializers, symbols } from 'pino'
import { systemClock, type Timer } from './time.ts'
import { onWarning } from './warnings.ts'

/** Lines are written together: a system call for each took a third of the CPU time of a small request. */
const BATCH_LINES = 128
/** How late a line may be. Only SIGKILL loses what is younger than this. */
const FLUSH_MS = 100
/** Characters that wait for a reader which is stuck; further lines are lost, since calls need the memory. */
const UNREAD_MAX = 32 * 1024 * 1024
/** Time that the reader has for the last lines of a process. */
export const LOG_READ_MS = 2_000

/** One attempt at an entry of the route, as the line of its call tells of it. */
export interface LoggedAttempt {
  readonly provider: string
  readonly model: string
  readonly status: number | null
  readonly milliseconds: number
  /** In our words. */
  readonly reason: string
  /** Place of the server in the provider's `base_urls`; absent: the provider has one address. */
  readonly replica?: number
}

/**
 * Every field that a line of the log may have; a call of the logger that names another one does not compile. Ids, names
 * out of the configuration, figures and sentences of ours: nothing that a caller, a provider or a store has written,
 * and no address with a query.
 */
export interface LogFields {
  /** Logged by what it is and why, see `described`. */
  readonly err?: unknown
  readonly stack?: string
  readonly reason?: string

  /** The caller's own where it sent one of that form. */
  readonly request_id?: string
  /** W3C trace id, where there is tracing. */
  readonly trace_id?: string | undefined
  /** Spans that no receiver took. */
  readonly spans?: number
  readonly method?: string
  /** The pattern of the endpoint, never what stood in its place; of a configuration: its file. */
  readonly path?: string | undefined
  /** Status of the HTTP answer or of the job. */
  readonly status?: number | string | null
  readonly error?: string | undefined
  readonly milliseconds?: number
  /** Until the head of a streamed answer was written. */
  readonly first_byte_milliseconds?: number | undefined
  /** Sum over all attempts until their answers had arrived; for a streamed answer, its first piece. */
  readonly upstream_milliseconds?: number | undefined
  readonly received_bytes?: number
  readonly sent_bytes?: number

  readonly workspace?: string | undefined
  readonly app?: string | undefined
  readonly key_id?: string | undefined
  readonly route?: string | undefined
  readonly policy_version_id?: string | undefined
  /** A label that the workspace declares; what else a caller asked for is not logged. */
  readonly requested_purpose?: string | undefined
  readonly applied_purpose?: string | undefined
  readonly purpose_source?: string | undefined
  readonly attempts?: readonly LoggedAttempt[] | undefined
  readonly usage?: Readonly<Record<string, number | null>> | undefined
  readonly cost_usd?: number | undefined
  readonly estimated?: boolean | undefined
  readonly replayed?: boolean | undefined
  /** Outcome of an attempt that was begun while its audio came. */
  readonly cut_through?: 'used' | 'dropped' | undefined
  /** Whether the answer is speech that was made for another call. */
  readonly cache?: 'hit' | 'miss' | undefined
  /** Why a live session ended, and what became of its audio when its provider was changed. */
  readonly session_end?: string | undefined
  readonly switches?: number | undefined
  readonly replayed_seconds?: number | undefined
  readonly lost_seconds?: number | undefined

  readonly job_id?: string | undefined
  readonly kind?: string
  readonly operation?: string
  readonly fence?: number
  readonly event_id?: string
  readonly attempt?: number
  readonly outcome?: string
  /** Id of the incident that an alert is about, and the name of its rule. */
  readonly incident?: string
  readonly rule?: string

  /** The name of an object, which is made of ids. */
  readonly object?: string
  /** Number of objects that a sweep deleted. */
  readonly objects?: number
  readonly uploads?: number
  readonly results?: number
  readonly slots?: number
  readonly pairs?: number
  readonly orphans?: number
  readonly speech?: number

  /** Ends of calls that the state did not take: of which kind, the first one's id, and how many. */
  readonly what?: string
  readonly token?: string
  readonly count?: number
  /** Stored keys, or published records, that hold while the state is away; null: none were ever read. */
  readonly known?: number | null
  readonly connection?: string
  readonly maxmemory_policy?: string
  readonly aof_load_truncated?: string
  readonly appendfsync?: string

  /** Issues of a configuration; `catalog/issues.ts` never shows a value. */
  readonly issues?: readonly string[]
  readonly changed?: boolean
  /** The catalog in the state: its version, its number of records, and the records that are not served. */
  readonly catalog_version?: string
  readonly records?: number
  readonly left_out?: readonly { readonly record: string; readonly issues: readonly string[] }[]

  /** A replica of a provider, by its place in `base_urls`. */
  readonly provider?: string
  readonly replica?: number
  /** Providers and models out of the configuration, with the days on which they ended. */
  readonly models?: readonly string[]

  readonly pid?: number
  readonly port?: number
  readonly tls_port?: number | undefined
  /** When the TLS certificate does. */
  readonly expires_at?: string
  readonly metrics_port?: number | undefined
  readonly node?: string
  readonly uws?: string
  readonly stores?: { readonly state: string; readonly objects: string }
  readonly egress_proxy?: string | undefined
  readonly jobs?: number | undefined
  readonly sandbox?: string | undefined
  readonly signal?: string
  readonly in_flight?: number | undefined
  readonly connections?: number
  readonly held_bytes?: number
  readonly bodies?: Readonly<Record<string, number>>
}

/** Rejects fields, or fields of an attempt, that are not in the list: they get a type that no value has. */
type Listed<Fields> = Fields & Nothing<Exclude<keyof Fields, keyof LogFields>> & Tried<Fields>
type Nothing<Name extends PropertyKey> = { readonly [Other in Name]: never }
type Tried<Fields> = Fields extends { readonly attempts?: readonly (infer Attempt)[] | undefined }
  ? [Exclude<keyof Attempt, keyof LoggedAttempt>] extends [never]
    ? unknown
    : { readonly attempts: never }
  : unknown

interface Say {
  <Fields extends LogFields>(fields: Listed<Fields>, message: string): void
  (message: string): void
}

type Level = 'debug' | 'info' | 'warn' | 'error' | 'fatal'

/** Says what happened, in a constant sentence, and fields of one list. `flush` calls back once its lines are out. */
export interface Logger extends Readonly<Record<Level, Say>> {
  isLevelEnabled(level: Level): boolean
  child(fields: Pick<LogFields, 'pid'>): Logger
  flush(written: () => void): void
}

/** Takes the lines of the log, each with its end of line. */
export type LogOutput = { write(line: string): void; flush?(written?: () => void): void }

/**
 * Writes JSON lines, by default to standard output. Callers name the fields that they log; whole requests, headers and
 * errors of providers are never handed over, so that no key, transcript or signed URL can slip in.
 */
export function createLogger(level: string, output: LogOutput = createOutput()): Logger {
  const formatters = { level: (label: string) => ({ level: label }) }
  const options = { level, base: null, timestamp: timestamps(), formatters, serializers: { err: described } }
  return Object.assign(pino(options, output), { [symbols.asJsonSym]: logLine })
}

/** Writes the time of a line; most have that of the one before. */
function timestamps(): () => string {
  let atMs = Number.NaN
  let text = ''
  return () => {
    const nowMs = systemClock.wallNow()
    if (nowMs !== atMs) {
      text = `,"time":"${new Date(nowMs).toISOString()}"`
      atMs = nowMs
    }
    return text
  }
}

/** A logger of pino's, as far as it knows what its lines are made of. */
interface LineMaker {
  /** By level: `{"level":"info"`. */
  readonly [symbols.lsCacheSym]: Readonly<Record<number, string>>
  /** Such as `,"pid":1`. */
  readonly [symbols.chindingsSym]: string
  readonly [symbols.serializersSym]: { readonly err: (error: unknown) => object }
}

/**
 * Makes a line, the same that pino makes. It goes from key to key, which takes 3.3 us for that of a request; V8 writes
 * the object as a whole in a third of that.
 */
function logLine(
  this: LineMaker,
  fields: LogFields,
  message: string | undefined,
  level: number,
  time: string,
): string {
  const { err } = fields
  const shown = err === undefined ? fields : { ...fields, err: this[symbols.serializersSym].err(err) }
  const written = JSON.stringify(shown)
  const some = written === '{}' ? '' : `,${written.slice(1, -1)}`
  const said = message === undefined ? '' : `,"msg":${JSON.stringify(message)}`
  return `${this[symbols.lsCacheSym][level]}${time}${this[symbols.chindingsSym]}${some}${said}}\n`
}

/**
 * Logs what ends the process, and what Node warns of, like any other error. Node's own print of either is no JSON, and
 * that of a crash would show all that hangs onto it: commands of clients of stores, keys and transcripts among them.
 */
export function logCrash(log: Logger): void {
  onWarning((warning) => log.warn({ err: warning }, 'Node warns'))
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'crashed')
    process.exit(1)
  })
}

/**
 * Describes an error and its causes, without the other properties of the object: clients of stores attach the data that
 * they were writing, which includes transcripts and keys.
 */
function described(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error }
  const { type, message, stack, code } = stdSerializers.err(error)
  return { type, message: withoutQuotes(message), stack: withoutQuotes(stack), code }
}

/** The stack of an error and those of its causes. */
export function stackOf(error: unknown): string {
  return error instanceof Error ? withoutQuotes(stdSerializers.err(error).stack) : typeof error
}

/** The message of an error alone. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? withoutQuotes(error.message) : typeof error
}

/**
 * Where messages quote what they complain of: V8's of JSON the text around the fault, Node's of an argument its value,
 * Redis's of a command that it does not know its arguments, the password among them.
 */
function withoutQuotes(text: string): string {
  const withoutValues = withoutMessageEnds(withoutJson(text), VALUE_FOLLOWS, ' Received …')
  return withoutMessageEnds(withoutValues, ARGUMENTS_FOLLOW, '')
}

const NOT_JSON = ' is not valid JSON'
/** Stands before a quote of JSON, at its end. */
const TOKEN_BEFORE = /(?:Unexpected token .{3,4}, )?(?:\.\.\.)?$/s
const TOKEN_BEFORE_LENGTH_MAX = 'Unexpected token 💩💩, ...'.length
const VALUE_FOLLOWS = / Received (?:type \w{1,40} \(|['"`])/g
const ARGUMENTS_FOLLOW = /,? with args beginning with:/g
/** The end of a message in a stack. */
const MESSAGE_END = /\n {4}at |\ncaused by: /g

/** Leaves out what V8 quotes of JSON: all from the first quotation mark on. */
function withoutJson(text: string): string {
  let kept = ''
  let from = 0
  let quote = text.indexOf('"')
  for (let end = text.indexOf(NOT_JSON); end !== -1; end = text.indexOf(NOT_JSON, from)) {
    if (quote !== -1 && quote < from) quote = text.indexOf('"', from)
    const isQuoted = quote !== -1 && quote < end && quote < text.lastIndexOf('"', end)
    const before = text.slice(Math.max(from, quote - TOKEN_BEFORE_LENGTH_MAX), quote)
    const start = quote - (isQuoted ? (TOKEN_BEFORE.exec(before)?.[0].length ?? 0) : 0)
    kept += isQuoted ? `${text.slice(from, start)}not valid JSON` : text.slice(from, end + NOT_JSON.length)
    from = end + NOT_JSON.length
  }
  return kept + text.slice(from)
}

/** Leaves out what follows where `begins` matches, to the end of each message. */
function withoutMessageEnds(text: string, begins: RegExp, instead: string): string {
  let kept = ''
  let from = 0
  for (const { index } of text.matchAll(begins)) {
    if (index < from) continue
    MESSAGE_END.lastIndex = index
    kept += text.slice(from, index) + instead
    from = MESSAGE_END.exec(text)?.index ?? text.length
  }
  return kept + text.slice(from)
}

/**
 * Collects lines for standard output. pino's own destination appends each line to one growing string, whose length and
 * encoding are then computed several times over: 4 µs a line.
 */
function createOutput(): LogOutput {
  const lines: string[] = []
  let lost = 0
  let timer: Timer | undefined
  const flush = (written?: () => void): void => {
    timer?.close()
    timer = undefined
    if (process.stdout.writableLength > UNREAD_MAX) lost += lines.splice(0).length
    else if (lost > 0) {
      const rest = '"msg":"lines of the log were lost: nothing read them"}\n'
      lines.unshift(`{"level":"warn"${timestamps()()},"count":${lost},${rest}`)
      lost = 0
    }
    if (lines.length > 0 || written) process.stdout.write(lines.splice(0).join(''), written)
  }
  process.once('exit', () => flush())
  // A log that is no longer read is no reason to stop serving.
  process.stdout.on('error', () => {})
  return {
    flush,
    write(line) {
      if (lines.push(line) >= BATCH_LINES) flush()
      else timer ??= systemClock.after(FLUSH_MS, flush).unref()
    },
  }
}
