import { readFile } from 'node:fs/promises'

/** Processor time that a process has used so far, in ms, to a hundredth of a second. */
export async function cpuMsOf(pid: number): Promise<number> {
  const [, rest = ''] = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')
  const fields = rest.split(' ')
  // In ticks of a hundredth of a second: in the program, and in the kernel for it.
  return (Number(fields[11]) + Number(fields[12])) * 10
}
