import { createInterface } from 'node:readline'
import { lockFolder } from '../../src/gateway/storage/folder-lock.ts'

// Locks the folder of each line of standard input, once it has given the one before free, and says whether it has it.

let free = async () => {}

for await (const folder of createInterface({ input: process.stdin })) {
  await free()
  free = async () => {}
  try {
    free = await lockFolder(folder)
    process.stdout.write('has it\n')
  } catch (error) {
    process.stdout.write(`${(error as Error).message}\n`)
  }
}
