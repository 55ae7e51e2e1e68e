import { createHash } from 'node:crypto'
import { mkdir, realpath, rm } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A path of a Unix socket fits into 107 bytes on Linux and 103 on macOS. */
const SOCKET_PATH_MAX_BYTES = 100

/**
 * Claims a data folder for this process. The claim is a listening socket, so it ends with the process, however that
 * ends, and a dead one is told from a living one by connecting to it.
 *
 * @returns gives the folder free
 * @throws  Error when another process has it
 */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  await mkdir(folder, { recursive: true })
  const path = await socketPath(folder)
  for (let round = 0; round < 2; round += 1) {
    const server = await tryListen(path)
    if (server !== null) return () => new Promise((resolve) => server.close(() => resolve()))
    if (await answers(path)) break
    await rm(path, { force: true })
  }
  throw new Error(
    `the data folder ${folder} is in use by another Larkway process; for more than one process give them Redis and S3`,
  )
}

async function socketPath(folder: string): Promise<string> {
  const real = await realpath(folder)
  const inside = join(real, 'lock.sock')
  if (Buffer.byteLength(inside) <= SOCKET_PATH_MAX_BYTES) return inside
  return join(tmpdir(), `larkway-${createHash('sha256').update(real).digest('hex').slice(0, 16)}.sock`)
}

/** Null when the path is taken. */
function tryListen(path: string): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(null)
      else reject(error)
    })
    server.listen(path, () => resolve(server.unref()))
  })
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('close', () => socket.destroy())
  })
}
