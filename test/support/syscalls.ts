import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Teardown, tempFolder } from './scratch.ts'

/** Why system calls cannot be watched here; false when they can. For the `skip` of a test. */
export const unwatchable =
  spawnSync('strace', ['-e', 'trace=none', 'true']).status !== 0 && 'there is no strace'

export interface Watch {
  /** Stops watching. @returns one line for each call, in the order in which they began */
  stop(): Promise<readonly string[]>
}

/** How much of the bytes that a call is given is written down. */
const TEXT_BYTES = 8_192
const ATTACHED_MS = 10_000

/** Watches the system calls of all threads of a process. */
export async function watchSyscalls(t: Teardown, pid: number, calls: readonly string[]): Promise<Watch> {
  const file = join(await tempFolder(t), 'calls')
  const args = ['-f', '-p', `${pid}`, '-e', `trace=${calls.join(',')}`, '-s', `${TEXT_BYTES}`, '-o', file]
  const strace = spawn('strace', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const end = async () => {
    if (strace.exitCode !== null || strace.signalCode !== null) return
    const ended = once(strace, 'exit')
    strace.kill('SIGINT')
    await ended
  }
  t.teardown(end)
  await attached(strace)
  return {
    async stop() {
      await end()
      return (await readFile(file, 'latin1')).split('\n')
    },
  }
}

async function attached(strace: ChildProcess): Promise<void> {
  let said = ''
  strace.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const untilMs = performance.now() + ATTACHED_MS
  while (!/attached/.test(said)) {
    if (strace.exitCode !== null || performance.now() > untilMs) throw new Error(`strace: ${said}`)
    await sleep(20)
  }
}
