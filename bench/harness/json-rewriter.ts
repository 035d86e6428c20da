/** The job of the rewriter in the usual way: parse, replace price and macros of each bid, serialise. */
interface Bid {
  id: string
  impid: string
  price: number
  [field: string]: unknown
}

interface Priced {
  price: number
  inText: string
  outText: string
  context: string
}

export function rewriteJson(body: string, priceOf: (bid: Bid) => Priced): string {
  const response = JSON.parse(body) as { seatbid: { bid: Bid[] }[] }
  for (const bid of response.seatbid.flatMap((seat) => seat.bid)) {
    const { price, inText, outText, context } = priceOf(bid)
    bid.price = price
    for (const field of ['adm', 'nurl', 'burl', 'lurl'])
      if (typeof bid[field] === 'string')
        bid[field] = bid[field]
          .replaceAll('${SVC_OPD_CONTEXT}', context)
          .replaceAll('${SVC_OPD_IN_BID_PRICE}', inText)
          .replaceAll('${SVC_OPD_OUT_BID_PRICE}', outText)
          .replaceAll('${SVC_OPD_MODE}', 'revenue')
  }
  return JSON.stringify(response)
}
