import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a test context of tap offers to those who must clean up; a bench brings its own. */
export type Teardown = { teardown(undo: () => unknown): unknown }

/** A folder of the test's own, removed when it ends. */
export async function tempFolder(t: Teardown): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'larkway-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  return folder
}

const FIRST_PORT = 10_240
const PORTS = 20_000
let nextPort = FIRST_PORT + Math.floor(Math.random() * PORTS)

/**
 * A TCP port of 127.0.0.1 that nothing listens on, for programs that cannot choose one themselves. It is taken from
 * below the range from which the system serves outgoing connections, so that none of those takes it before the
 * program does, and it is this process' until that ends: a program that was killed finds it free again.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + (nextPort++ % PORTS)
    if (claim(port) && (await canListen(port))) return port
  }
}

/** Marks a port as that of this process among all that ask here. */
function claim(port: number): boolean {
  const path = join(tmpdir(), `larkway-port-${port}`)
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx' })
  } catch {
    if (isHeld(path)) return false
    writeFileSync(path, String(process.pid))
  }
  process.once('exit', () => rmSync(path, { force: true }))
  return true
}

function isHeld(path: string): boolean {
  try {
    return process.kill(Number(readFileSync(path, 'utf8')), 0)
  } catch {
    return false
  }
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
