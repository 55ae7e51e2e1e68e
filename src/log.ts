import { type Logger, pino } from 'pino'

export type { Logger }

/** Lines are written together: a system call for each took a third of the CPU time of a small request. */
const BATCH_CHARACTERS = 64 * 1024
/** How late a line may be. Only SIGKILL loses what is younger than this. */
const FLUSH_MS = 100

/**
 * JSON lines on standard output. Callers name the fields that they log; whole requests, headers and errors of
 * providers are never handed over, so that no key, transcript or signed URL can slip in.
 */
export function createLogger(level: string): Logger {
  const timestamp = () => `,"time":"${new Date().toISOString()}"`
  const formatters = { level: (label: string) => ({ level: label }) }
  return pino({ level, base: null, timestamp, formatters, serializers: { err: described } }, createOutput())
}

/**
 * What an error is and why, its causes included, and nothing else that hangs onto it: clients of stores leave what they
 * were to write there, transcripts and keys among it.
 */
function described(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error }
  const { type, message, stack, code } = pino.stdSerializers.err(error)
  return { type, message, stack, code }
}

/**
 * Collects lines for standard output. pino's own destination appends each line to one growing string, whose length and
 * encoding are then computed several times over: 4 µs a line.
 */
function createOutput(): { write(line: string): void } {
  let lines: string[] = []
  let characters = 0
  const flush = (): void => {
    if (characters === 0) return
    const text = lines.join('')
    lines = []
    characters = 0
    process.stdout.write(text)
  }
  setInterval(flush, FLUSH_MS).unref()
  process.once('exit', flush)
  // Nobody reads any more: that is no reason to stop serving.
  process.stdout.on('error', () => {})
  return {
    write(line) {
      lines.push(line)
      characters += line.length
      if (characters >= BATCH_CHARACTERS) flush()
    },
  }
}
