/**
 * Backups in a bucket of an S3-compatible store: `s3://BUCKET/PREFIX`. Region, endpoint and credentials come from where the tools
 * of AWS look for them: AWS_REGION, AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, a role of the pod, and others.
 */
import { createReadStream, createWriteStream, mkdirSync, readdirSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'

/** Bytes of a part of a large file. With at most 10,000 parts a file may have 640 GB. */
const partBytes = 64 * 1024 * 1024

const form = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/

/** A bucket of S3, or of a server with its interface. */
export class Bucket {
  readonly prefix: string
  private readonly name: string
  private readonly client: S3Client
  private readonly partBytes: number

  /**
   * @param url `s3://BUCKET/PREFIX`
   * @throws if it is not of this form
   */
  constructor(url: string, options: { partBytes?: number } = {}) {
    const [, name, prefix = ''] = form.exec(url) ?? []
    if (name === undefined) throw new Error(`${url} is not of the form s3://BUCKET/PREFIX`)
    this.name = name
    this.prefix = prefix.replace(/\/+$/, '')
    this.partBytes = options.partBytes ?? partBytes
    // Stores other than that of AWS often have no name for each bucket.
    const isOther = ['AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL'].some((name) => process.env[name])
    this.client = new S3Client({ forcePathStyle: isOther })
  }

  close(): void {
    this.client.destroy()
  }

  private key(path: string): string {
    return [this.prefix, path].filter((part) => part !== '').join('/')
  }

  /**
   * Paths of all objects below a path, without the prefix.
   *
   * @param path without the prefix and a slash at its end; '': all
   * @throws the error of the store, as the other methods do
   */
  async list(path = ''): Promise<string[]> {
    const below = this.key(path)
    const paths: string[] = []
    let token: string | undefined
    do {
      const page = await this.client.send(
        new ListObjectsV2Command({
          Bucket: this.name,
          Prefix: below === '' ? '' : `${below}/`,
          ...(token === undefined ? {} : { ContinuationToken: token }),
        }),
      )
      for (const { Key } of page.Contents ?? [])
        if (Key !== undefined)
          paths.push(this.prefix === '' ? Key : Key.slice(this.prefix.length + 1))
      token = page.NextContinuationToken
    } while (token !== undefined)
    return paths
  }

  /**
   * Copies all files of a folder. After an error it removes what it has copied.
   *
   * @param folder local, with its folders
   * @param path in the bucket, without the prefix
   * @param last the file, by its name in the folder, that marks a complete copy: it is written after all others
   */
  async uploadFolder(folder: string, path: string, last: string): Promise<void> {
    const names = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    const done: string[] = []
    try {
      for (const name of [...names.filter((name) => name !== last), last]) {
        const to = [path, ...name.split(sep)].filter((part) => part !== '').join('/')
        done.push(to)
        await this.upload(join(folder, name), to)
      }
    } catch (error) {
      // If the store is away, the next copy removes what is left: it has no mark.
      await this.remove(done).catch(() => undefined)
      throw error
    }
  }

  async upload(file: string, path: string): Promise<void> {
    const { size } = statSync(file)
    if (size > this.partBytes) return this.uploadParts(file, path, size)
    await this.client.send(
      new PutObjectCommand({
        Bucket: this.name,
        Key: this.key(path),
        Body: createReadStream(file),
        ContentLength: size,
      }),
    )
  }

  private async uploadParts(file: string, path: string, size: number): Promise<void> {
    const { client } = this
    const target = { Bucket: this.name, Key: this.key(path) }
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(target))
    const handle = await open(file)
    try {
      const Parts: { ETag: string | undefined; PartNumber: number }[] = []
      for (let start = 0; start < size; start += this.partBytes) {
        const Body = Buffer.alloc(Math.min(this.partBytes, size - start))
        const { bytesRead } = await handle.read(Body, 0, Body.length, start)
        if (bytesRead !== Body.length) throw new Error(`${file} became shorter while it was read`)
        const PartNumber = Parts.length + 1
        const part = { ...target, UploadId, PartNumber, Body }
        Parts.push({ ETag: (await client.send(new UploadPartCommand(part))).ETag, PartNumber })
      }
      await client.send(
        new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts } }),
      )
    } catch (error) {
      // Parts that are left cost money, and no list shows them.
      await client.send(new AbortMultipartUploadCommand({ ...target, UploadId }))
      throw error
    } finally {
      await handle.close()
    }
  }

  /**
   * Copies all objects below a path into a folder, which only this user may read.
   *
   * @param path without the prefix; '': all
   * @param folder local; files of the same name are replaced
   * @throws if the name of an object leads out of the folder
   */
  async download(path: string, folder: string): Promise<void> {
    for (const key of await this.list(path)) {
      const name = path === '' ? key : key.slice(path.length + 1)
      if (name.split('/').includes('..')) throw new Error(`the name of an object has "..": ${key}`)
      const to = join(folder, name.replaceAll('/', sep))
      mkdirSync(dirname(to), { recursive: true, mode: 0o700 })
      const { Body } = await this.client.send(
        new GetObjectCommand({ Bucket: this.name, Key: this.key(key) }),
      )
      await pipeline(Body as Readable, createWriteStream(to, { mode: 0o600 }))
    }
  }

  /**
   * One by one: not every store has a call for many.
   *
   * @param paths without the prefix; those that are not there are no error
   */
  async remove(paths: readonly string[]): Promise<void> {
    for (const path of paths)
      await this.client.send(new DeleteObjectCommand({ Bucket: this.name, Key: this.key(path) }))
  }
}
