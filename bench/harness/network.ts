import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createInterface } from 'node:readline'

/**
 * Which network the processes of a run talk over: the machine's loopback as it is, or one of the bench's own whose
 * receive buffers have a cap, for peers that set none as Larkway does.
 */
export type NetworkKind = 'system' | 'capped'

export interface Network {
  readonly kind: NetworkKind
  /** Its description in the results. */
  readonly description: string
  /** Put before a command, so that it runs in this network. */
  readonly prefix: readonly string[]
  close(): void
}

/** Least, initial and largest receive buffer of a TCP socket, bytes; as in the deployment files. */
const CAPPED_RMEM = '4096 131072 524288'

export function systemNetwork(reason = ''): Network {
  const rmem = spawnSync('cat', ['/proc/sys/net/ipv4/tcp_rmem'], { encoding: 'utf8' }).stdout.trim()
  const description = `system loopback, tcp_rmem ${rmem.split(/\s+/).join(' ')}${reason && `; ${reason}`}`
  return { kind: 'system', description, prefix: [], close() {} }
}

/**
 * Makes a network namespace with nothing but a capped loopback in it. A process that waits for this one's end of a
 * pipe holds it, so it goes when this one does, however that ends. Where that is not allowed, the result is the
 * machine's own loopback, and its description says why.
 */
export async function cappedNetwork(): Promise<Network> {
  const setUp = `ip link set lo up && echo "${CAPPED_RMEM}" > /proc/sys/net/ipv4/tcp_rmem && echo ready && exec cat`
  const holder = spawn('unshare', ['--net', 'sh', '-c', setUp], { stdio: ['pipe', 'pipe', 'pipe'] })
  const failure = await readyOrFailure(holder)
  if (failure !== null) return systemNetwork(`receive buffers could not be capped: ${failure}`)
  return {
    kind: 'capped',
    description: `loopback of its own namespace, tcp_rmem ${CAPPED_RMEM}`,
    prefix: ['nsenter', `--net=/proc/${holder.pid}/ns/net`],
    close: () => void holder.kill('SIGKILL'),
  }
}

async function readyOrFailure(holder: ChildProcess): Promise<string | null> {
  let complaint = ''
  holder.stderr?.on('data', (chunk: Buffer) => {
    complaint += chunk.toString()
  })
  return await new Promise((done) => {
    holder.on('error', (error) => done(error.message))
    holder.on('close', (status) => done(complaint.trim().split('\n')[0] || `status ${status}`))
    if (holder.stdout) createInterface(holder.stdout).once('line', (line) => line === 'ready' && done(null))
  })
}
