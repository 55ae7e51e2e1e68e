import { type Logger, pino } from 'pino'

export type { Logger }

/** Lines are written together: a system call for each took a third of the CPU time of a small request. */
const BATCH_BYTES = 64 * 1024
/** How late a line may be. Only SIGKILL loses what is younger than this. */
const FLUSH_MS = 100

/**
 * JSON lines on standard output. Callers name the fields that they log; whole requests, headers and errors of
 * providers are never handed over, so that no key, transcript or signed URL can slip in.
 */
export function createLogger(level: string): Logger {
  const lines = pino.destination({ sync: false, minLength: BATCH_BYTES, maxWrite: 2 * BATCH_BYTES })
  setInterval(() => lines.flush(), FLUSH_MS).unref()
  const timestamp = () => `,"time":"${new Date().toISOString()}"`
  return pino({ level, base: null, timestamp, formatters: { level: (label) => ({ level: label }) } }, lines)
}
