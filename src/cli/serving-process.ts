import { type ChildProcess, spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url))

/** One of several servers on a port. */
export interface ServingProcess {
  readonly pid: number | undefined
  /** Resolves with what a newcomer is told, once it listens; never when it ends before that. */
  readonly listening: Promise<string>
  /**
   * Resolves when it has ended and all that it wrote was passed on: `with 1`, `by SIGKILL`, or why it never
   * ran.
   */
  readonly ended: Promise<string>
  kill(signal: NodeJS.Signals): void
}

/**
 * Starts a server that shares its port. It stops by itself when this process dies, of whatever: the channel
 * between them closes. It is in a process group of its own, else a terminal's Ctrl-C would reach it twice.
 * Flags for its Node belong into NODE_OPTIONS.
 *
 * @param env   PORT in it is not 0
 * @param print takes its log, whole lines only: several processes that wrote long batches into one pipe
 *              themselves would cut into each other's lines
 */
export function startServing(
  env: Readonly<Record<string, string | undefined>>,
  print: (lines: string) => void,
): ServingProcess {
  const child = spawn(process.execPath, [MAIN, '--shared'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    detached: true,
  })
  if (child.stdout !== null) passLines(child.stdout, print)
  return {
    pid: child.pid,
    listening: new Promise((resolve) => child.once('message', (message) => resolve(greetingIn(message)))),
    ended: endOf(child),
    kill: (signal) => void child.kill(signal),
  }
}

function greetingIn(message: unknown): string {
  const { greeting } = Object(message) as { readonly greeting?: unknown }
  return typeof greeting === 'string' ? greeting : ''
}

function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', ({ message }) => resolve(`before it ran: ${message}`))
    child.once('close', (code, signal) => resolve(code === null ? `by ${signal}` : `with ${code}`))
  })
}

function passLines(from: Readable, print: (lines: string) => void): void {
  let begun = ''
  from.setEncoding('utf8')
  from.on('data', (text: string) => {
    const end = text.lastIndexOf('\n') + 1
    if (end > 0) print(begun + text.slice(0, end))
    begun = end > 0 ? text.slice(end) : begun + text
  })
  from.on('end', () => {
    if (begun !== '') print(`${begun}\n`)
  })
}
