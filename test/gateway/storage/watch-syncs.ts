import { type FileHandle, open } from 'node:fs/promises'
import type { Teardown } from '../../support/scratch.ts'

/**
 * Stands between this process and every `fsync` that it asks for.
 *
 * @param act has to call `sync`, which is the real one; `folder`: whether a folder is forced to the disk
 */
export async function watchSyncs(
  t: Teardown,
  act: (sync: () => Promise<void>, folder: boolean) => Promise<void>,
): Promise<void> {
  const probe = await open(new URL(import.meta.url), 'r')
  const handles = Object.getPrototypeOf(probe) as Pick<FileHandle, 'sync'>
  await probe.close()
  const { sync } = handles
  t.teardown(() => {
    handles.sync = sync
  })
  handles.sync = async function (this: FileHandle) {
    const folder = (await this.stat()).isDirectory()
    await act(() => sync.call(this), folder)
  }
}
