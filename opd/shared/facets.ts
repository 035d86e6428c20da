/** What reports distinguish of a bid besides supplier, seat, publisher and domain. */

export const facetNames = ['country', 'device', 'format', 'size', 'deal'] as const
export type FacetName = (typeof facetNames)[number]

/** '' where the value is not known, or where the bid has no deal. */
export type Facets = Readonly<Record<FacetName, string>>

/** The value of what is beyond a limit, or is no value of its kind. */
export const otherValue = 'other'

/** By the number of OpenRTB (AdCOM 1.0, device types); '' is not known. */
export const devices = [
  '',
  'mobile',
  'pc',
  'tv',
  'phone',
  'tablet',
  'connected',
  'set_top_box',
  'ooh',
  otherValue,
] as const
/** '' is not known. */
export const formats = ['', 'banner', 'video', 'audio', 'native'] as const

export const maxDealBytes = 64
