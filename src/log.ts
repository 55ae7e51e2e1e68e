import { type Logger, pino } from 'pino'

export type { Logger }

/**
 * JSON lines on standard output. Callers name the fields that they log; whole requests, headers and errors of
 * providers are never handed over, so that no key, transcript or signed URL can slip in.
 */
export function createLogger(level: string): Logger {
  return pino({
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }) },
  })
}
