import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { childEnvironment } from '../support/child-environment.ts'
import { programOf } from '../support/program.ts'
import type { Teardown } from '../support/scratch.ts'
import { waitUntil } from '../support/wait-until.ts'

const PRELOAD = new URL('./canary-preload.ts', import.meta.url).href

/** A process of the product, of which every byte that it writes is kept. */
export interface WatchedProcess {
  readonly pid: number
  /** Standard output and standard error. */
  output(): Buffer
  /** The lines of its log so far. */
  lines(): Readonly<Record<string, unknown>>[]
  /** Resolves with the line that says this, or throws. */
  said(message: string): Promise<Readonly<Record<string, unknown>>>
  signal(name: NodeJS.Signals): void
  /** Resolves with its exit code. */
  readonly ended: Promise<number | null>
}

/** Starts a program of the product, with what `canary-preload.ts` does to it. */
export async function watchProcess(
  t: Teardown,
  [file, ...args]: readonly [file: 'main.ts' | 'cli.ts', ...args: string[]],
  env: Readonly<Record<string, string>>,
): Promise<WatchedProcess> {
  const program = await programOf(file)
  const node = ['--disable-warning=ExperimentalWarning', '--import', PRELOAD, ...program.args]
  const child = spawn(process.execPath, [...node, ...args], {
    env: childEnvironment({ ...program.env, ...env }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const chunks: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  const ended = once(child, 'close').then(([code]) => code as number | null)
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const lines = () => linesOf(Buffer.concat(chunks).toString())
  return {
    pid: child.pid ?? 0,
    output: () => Buffer.concat(chunks),
    lines,
    async said(message) {
      const find = () => lines().find(({ msg }) => msg === message)
      const isOver = () => find() !== undefined || child.exitCode !== null
      await waitUntil(isOver, 30_000)
      const line = find()
      if (line === undefined) throw new Error(`it does not say ${message}: ${Buffer.concat(chunks)}`)
      return line
    },
    signal: (name) => void child.kill(name),
    ended,
  }
}

function linesOf(output: string): Record<string, unknown>[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}
