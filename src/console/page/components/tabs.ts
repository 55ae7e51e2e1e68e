import type { ComponentChildren } from 'preact'
import { useId, useRef } from 'preact/hooks'
import { h } from '../h.ts'

export interface Tab<Id extends string> {
  readonly id: Id
  readonly label: string
  readonly count?: number
}

/** Tabs and the panel of the chosen one; arrow keys, Home and End go from tab to tab. */
export function Tabs<Id extends string>(props: {
  readonly label: string
  readonly tabs: readonly Tab<Id>[]
  readonly chosen: Id
  readonly onChoose: (id: Id) => void
  /** Content of the chosen tab. */
  readonly children: ComponentChildren
}) {
  const { label, tabs, chosen, onChoose, children } = props
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const step = (event: KeyboardEvent) => {
    const at = tabs.findIndex((tab) => tab.id === chosen)
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key]
    if (to === undefined) return
    event.preventDefault()
    const index = (to + tabs.length) % tabs.length
    onChoose(tabs[index]?.id ?? chosen)
    list.current?.querySelectorAll<HTMLElement>('[role=tab]')[index]?.focus()
  }
  return h(
    'div',
    { class: 'tabs' },
    h(
      'div',
      { class: 'tab-list', role: 'tablist', 'aria-label': label, ref: list, onKeyDown: step },
      tabs.map((tab) =>
        h(
          'button',
          {
            key: tab.id,
            type: 'button',
            role: 'tab',
            class: 'tab',
            id: `${id}-${tab.id}`,
            'aria-selected': tab.id === chosen ? 'true' : 'false',
            'aria-controls': `${id}-panel`,
            tabindex: tab.id === chosen ? 0 : -1,
            onClick: () => onChoose(tab.id),
          },
          tab.label,
          tab.count === undefined ? null : [' ', h('span', { class: 'tab-count' }, tab.count)],
        ),
      ),
    ),
    h(
      'div',
      { class: 'tab-panel', role: 'tabpanel', id: `${id}-panel`, 'aria-labelledby': `${id}-${chosen}` },
      children,
    ),
  )
}
