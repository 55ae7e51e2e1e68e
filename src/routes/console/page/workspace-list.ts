import { useEffect } from 'preact/hooks'
import type { WorkspaceSummary } from '../api/answers.ts'
import { api } from './api.ts'
import { type Load, useLoad } from './load.ts'

const CHANGED = 'lk-workspaces'

/** Tells the picker that a workspace was made, renamed or deleted. */
export function workspacesChanged(): void {
  dispatchEvent(new Event(CHANGED))
}

/** Those that the session may see, also after changes. */
export function useWorkspaces(): Load<readonly WorkspaceSummary[]> {
  const load = useLoad(
    async (signal): Promise<readonly WorkspaceSummary[]> =>
      (await api.get<{ workspaces: WorkspaceSummary[] }>('/workspaces', { signal })).workspaces,
    [],
  )
  const { reload } = load
  useEffect(() => {
    addEventListener(CHANGED, reload)
    return () => removeEventListener(CHANGED, reload)
  }, [reload])
  return load
}
