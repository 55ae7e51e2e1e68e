import {
  type Attributes,
  type ComponentChildren,
  type ComponentType,
  h as create,
  type JSX,
  type LooseInputHTMLAttributes,
  type VNode,
} from 'preact'

type ElementProps<Tag extends keyof JSX.IntrinsicElements> = (Tag extends 'input'
  ? LooseInputHTMLAttributes & { readonly list?: string | undefined }
  : JSX.IntrinsicElements[Tag]) & {
  readonly [name: `data-${string}`]: string | number | undefined
}

type Nothing = Record<never, never>

/** The same props, where undefined is as good as a prop left out. */
type Loose<Props> = {
  [Name in keyof Props]: Nothing extends Pick<Props, Name> ? Props[Name] | undefined : Props[Name]
}

/** The props of a component; its children are given by themselves. Null does where it needs none. */
type GivenProps<Props> = Props extends unknown
  ? (Attributes & Loose<Omit<Props, 'children'>>) | (Nothing extends Omit<Props, 'children'> ? null : never)
  : never

type Children<Props> = Props extends { readonly children: infer Child }
  ? [Child, ...Child[]]
  : 'children' extends keyof Props
    ? ComponentChildren[]
    : []

interface CreateElement {
  <Tag extends keyof JSX.IntrinsicElements>(
    tag: Tag,
    props: ElementProps<Tag> | null,
    ...children: ComponentChildren[]
  ): VNode
  <Props>(
    component: ComponentType<Props>,
    props: NoInfer<GivenProps<Props>>,
    ...children: NoInfer<Children<Props>>
  ): VNode
}

/**
 * Makes an element: `h('p', { class: 'quiet' }, text)`, or `h(Button, { onClick: save }, 'Save')`.
 *
 * This is Preact's own function with types that check the props and children of every element and component. Name the
 * type of a generic component: `h(Table<Row>, { … })`.
 */
export const h: CreateElement = create as CreateElement
