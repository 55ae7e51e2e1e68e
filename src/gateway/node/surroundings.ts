import { readFileSync } from 'node:fs'
import type { Environment } from './config.ts'

/** Fewer files and sockets than this end a node under load: each call takes up to three. */
const DESCRIPTORS_LEAST = 10_000
/** Memory of a node beside the bodies that it holds, MiB: 105 when it is idle, and garbage. */
const PROGRAM_MIB = 192
/** Memory of the process that makes the files of its usage ledger and answers questions, MiB: 288 at most. */
const LEDGER_MIB = 192

const LIMITS = '/proc/self/limits'

type MemorySettings = Pick<Environment, 'LARKWAY_MEMORY_MIB' | 'LARKWAY_PROCESSES' | 'LARKWAY_USAGE'>
type Settings = MemorySettings & Pick<Environment, 'REDIS_URL' | 'S3_BUCKET' | 'LARKWAY_SECRET_KEYS'>

/** Says in a sentence each what about the environment and the machine will do harm to a node, if anything does. */
export function remarksOn(environment: Settings): string[] {
  return [
    ...loneNode(environment),
    fewDescriptors(readOr(LIMITS)),
    littleMemory(environment, process.constrainedMemory()),
  ].filter((remark) => remark !== null)
}

/** Parts that nodes with a common Redis must share as well, and that each would otherwise have of its own. */
function loneNode({ REDIS_URL, S3_BUCKET, LARKWAY_SECRET_KEYS }: Settings): string[] {
  if (REDIS_URL === undefined) return []
  const remarks: string[] = []
  if (S3_BUCKET === undefined)
    remarks.push(
      'objects are in the data folder of this node: no other node finds large answers and jobs there',
    )
  if (LARKWAY_SECRET_KEYS === undefined)
    remarks.push('LARKWAY_SECRET_KEYS is not set: no other node can read the secrets that this one seals')
  return remarks
}

/** Half of the descriptors of this process: calls need the others, for providers, stores and bodies. */
export function connectionsMax(): number {
  return Math.floor(descriptorsIn(readOr(LIMITS)) / 2)
}

/** Infinite where the system says nothing of a limit. */
function descriptorsIn(limits: string): number {
  return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY)
}

/** @param limits content of /proc/self/limits; Node has raised the soft limit to the hard one by now */
export function fewDescriptors(limits: string): string | null {
  const most = descriptorsIn(limits)
  if (most >= DESCRIPTORS_LEAST) return null
  return `only ${most} files and sockets may be open at once: allow 65536 (ulimit -n, LimitNOFILE of systemd)`
}

/** @param bytes that the container may take; 0, or more than any machine has: all */
export function littleMemory(
  { LARKWAY_MEMORY_MIB: budget, LARKWAY_PROCESSES: processes, LARKWAY_USAGE: keepsUsage }: MemorySettings,
  bytes: number | undefined,
): string | null {
  const most = Math.floor((bytes ?? 0) / 1024 ** 2)
  const program = PROGRAM_MIB + (keepsUsage ? LEDGER_MIB : 0)
  if (most === 0 || most >= processes * (budget + program)) return null
  const each = processes === 1 ? '' : ` in each of ${processes} processes`
  return (
    `the container may take ${most} MiB, and LARKWAY_MEMORY_MIB gives bodies ${budget} of them beside ` +
    `${program} for the program${keepsUsage ? ' and its usage ledger' : ''}${each}: it may be killed under load`
  )
}

/** Content of a file of the kernel; empty where it has no such. */
function readOr(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
