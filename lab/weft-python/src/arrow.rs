//! Tables by Arrow's C data interface and C stream interface, without copies: the structures and their rules are those of
//! <https://arrow.apache.org/docs/format/CDataInterface.html> and <https://arrow.apache.org/docs/format/CStreamInterface.html>.
//!
//! A table is a stream of one batch, a structure with a child for each column. The consumer of a batch holds the table by a count, and gives
//! it back by `release`, on any thread.

use crate::table::{Column, Table, Values};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use std::ffi::CString;
use std::sync::Arc;

/// The flag of a column that may lack values.
const NULLABLE: i64 = 2;

/// The function that gives something back.
///
/// # Safety
/// What is given back was made here and is not released.
type Release<T> = unsafe extern "C" fn(*mut T);

/// The function of a stream that writes something to a place.
///
/// # Safety
/// The stream was made here and is not released; the place is one for what is written, and is not read.
type Get<T> = unsafe extern "C" fn(*mut Stream, *mut T) -> c_int;

/// The function of a stream that returns the text of its last error.
///
/// # Safety
/// The stream was made here and is not released.
type GetError = unsafe extern "C" fn(*mut Stream) -> *const c_char;

/// `struct ArrowSchema`: the type of an array.
#[repr(C)]
pub(crate) struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<Release<Self>>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`: the values.
#[repr(C)]
pub(crate) struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<Release<Self>>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream`: a table, until its consumer has taken it.
#[repr(C)]
pub(crate) struct Stream {
    get_schema: Option<Get<Schema>>,
    get_next: Option<Get<Array>>,
    get_last_error: Option<GetError>,
    release: Option<Release<Self>>,
    private_data: *mut c_void,
}

// SAFETY: the private data is a `Box` of this module, which any one thread may use and drop; there is no other reference to it.
unsafe impl Send for Schema {}
// SAFETY: as above.
unsafe impl Send for Stream {}

/// Owned by a [`Schema`].
struct OfSchema {
    name: CString,
    children: Vec<*mut Schema>,
}

/// Owned by an [`Array`]; `_table` keeps alive what the buffers point to.
struct OfArray {
    _table: Arc<Table>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

/// Owned by a [`Stream`].
struct OfStream {
    table: Arc<Table>,
    taken: bool,
}

impl Schema {
    /// The type of a table.
    pub(crate) fn of(table: &Table) -> Self {
        let column = |column: &Column| {
            let format = match column.values {
                Values::Integers(_) => c"l",
                Values::Floats(_) => c"g",
                Values::Flags(_) => c"b",
                Values::Texts { .. } => c"U",
            };
            Self::new(format, &column.name, Vec::new())
        };
        Self::new(c"+s", "", table.columns.iter().map(column).collect())
    }

    fn new(format: &'static CStr, name: &str, children: Vec<Self>) -> Self {
        // A name with a zero byte ends there, as in C.
        let name = name.split('\0').next().unwrap_or_default();
        let name = CString::new(name).unwrap_or_default();
        let children: Vec<*mut Self> =
            children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut own = Box::new(OfSchema { name, children });
        Self {
            format: format.as_ptr(),
            name: own.name.as_ptr(),
            metadata: ptr::null(),
            flags: NULLABLE,
            n_children: own.children.len() as i64,
            children: own.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(own).cast(),
        }
    }
}

impl Array {
    /// The values of a table.
    fn of(table: &Arc<Table>) -> Self {
        let children = table.columns.iter().map(|column| {
            let there = column.there.as_ref().map_or(ptr::null(), |there| pointer(&there.bytes));
            let buffers = match &column.values {
                Values::Integers(values) => vec![there, pointer(values)],
                Values::Floats(values) => vec![there, pointer(values)],
                Values::Flags(bits) => vec![there, pointer(&bits.bytes)],
                Values::Texts { ends, bytes } => vec![there, pointer(ends), pointer(bytes)],
            };
            Self::new(table, column.missing, buffers, Vec::new())
        });
        let children = children.collect();
        Self::new(table, 0, vec![ptr::null()], children)
    }

    fn new(table: &Arc<Table>, missing: usize, buffers: Vec<*const c_void>, children: Vec<Self>) -> Self {
        let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut own = Box::new(OfArray { _table: Arc::clone(table), buffers, children });
        Self {
            length: table.rows as i64,
            null_count: missing as i64,
            offset: 0,
            n_buffers: own.buffers.len() as i64,
            n_children: own.children.len() as i64,
            buffers: own.buffers.as_mut_ptr(),
            children: own.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(own).cast(),
        }
    }

    /// The array that says that there is no further one.
    const fn end() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

impl Stream {
    /// A table as a stream.
    pub(crate) fn of(table: &Arc<Table>) -> Self {
        let own = Box::new(OfStream { table: Arc::clone(table), taken: false });
        Self {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private_data: Box::into_raw(own).cast(),
        }
    }
}

/// The address of values.
fn pointer<T>(values: &[T]) -> *const c_void {
    values.as_ptr().cast()
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is not released yet, and `release` is called once, as the interface requires.
            unsafe { release(self) }
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is not released yet, and `release` is called once, as the interface requires.
            unsafe { release(self) }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is not released yet, and `release` is called once, as the interface requires.
            unsafe { release(self) }
        }
    }
}

/// Releases a schema with those of its children that no consumer has taken.
///
/// # Safety
/// It was made by [`Schema::new`] and is not released.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: by the caller, the pointer is valid, and the private data is the box that `Schema::new` made.
    let own = unsafe {
        (*schema).release = None;
        Box::from_raw((*schema).private_data.cast::<OfSchema>())
    };
    for child in &own.children {
        // SAFETY: each is a box of `Schema::new`; dropping one that was taken, whose `release` is empty, frees the structure only.
        drop(unsafe { Box::from_raw(*child) });
    }
}

/// Releases an array with those of its children that no consumer has taken.
///
/// # Safety
/// It was made by [`Array::new`] and is not released.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: by the caller, the pointer is valid, and the private data is the box that `Array::new` made.
    let own = unsafe {
        (*array).release = None;
        Box::from_raw((*array).private_data.cast::<OfArray>())
    };
    for child in &own.children {
        // SAFETY: each is a box of `Array::new`; dropping one that was taken, whose `release` is empty, frees the structure only.
        drop(unsafe { Box::from_raw(*child) });
    }
}

/// Releases a stream.
///
/// # Safety
/// It was made by [`Stream::of`] and is not released.
unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: by the caller, the pointer is valid, and the private data is the box that `Stream::of` made.
    unsafe {
        (*stream).release = None;
        drop(Box::from_raw((*stream).private_data.cast::<OfStream>()));
    }
}

/// Writes the type of the stream's arrays; returns 0.
///
/// # Safety
/// `stream` was made by [`Stream::of`] and is not released; `out` is a place for a schema, which is not read.
unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: by the caller.
    unsafe {
        let own = &*(*stream).private_data.cast::<OfStream>();
        ptr::write(out, Schema::of(&own.table));
    }
    0
}

/// Writes the next array, or one that is released at the end; returns 0.
///
/// # Safety
/// `stream` was made by [`Stream::of`] and is not released; `out` is a place for an array, which is not read.
unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: by the caller; the interface forbids calls of two threads at once.
    unsafe {
        let own = &mut *(*stream).private_data.cast::<OfStream>();
        let next = if own.taken { Array::end() } else { Array::of(&own.table) };
        own.taken = true;
        ptr::write(out, next);
    }
    0
}

/// Returns no text, since nothing here fails.
///
/// # Safety
/// There is no requirement: `stream` is not read.
unsafe extern "C" fn get_last_error(_stream: *mut Stream) -> *const c_char {
    ptr::null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::MaybeUninit;

    fn table() -> Arc<Table> {
        let integers = Column::integers("whole", [Some(7), None, Some(-1)].into_iter());
        let texts = Column::texts("text", [Some("a"), Some(""), Some("bcd")].into_iter());
        Arc::new(Table::new(vec![integers, texts]))
    }

    /// Takes the next array as a consumer in C would.
    fn next(stream: &mut Stream) -> Array {
        let mut out = MaybeUninit::uninit();
        // SAFETY: the stream is ours and not released; the array is written when the call returns 0.
        unsafe {
            assert_eq!(stream.get_next.expect("a function")(stream, out.as_mut_ptr()), 0);
            out.assume_init()
        }
    }

    fn schema(stream: &mut Stream) -> Schema {
        let mut out = MaybeUninit::uninit();
        // SAFETY: the stream is ours and not released; the schema is written when the call returns 0.
        unsafe {
            assert_eq!(stream.get_schema.expect("a function")(stream, out.as_mut_ptr()), 0);
            out.assume_init()
        }
    }

    /// The `at`-th buffer of a column as values.
    fn buffer<T: Copy>(array: &Array, column: usize, at: usize, len: usize) -> Vec<T> {
        // SAFETY: the table has as many columns, each as many buffers, and they as many values.
        unsafe {
            let child = *array.children.add(column);
            core::slice::from_raw_parts((*(*child).buffers.add(at)).cast::<T>(), len).to_vec()
        }
    }

    #[test]
    fn a_consumer_reads_types_and_values() {
        let table = table();
        let mut stream = Stream::of(&table);
        let schema = schema(&mut stream);
        let texts = |text: *const c_char| {
            // SAFETY: the schema is not released.
            unsafe { CStr::from_ptr(text) }.to_str().expect("UTF-8").to_owned()
        };
        assert_eq!((texts(schema.format).as_str(), schema.n_children), ("+s", 2));
        let child = |at: usize| {
            // SAFETY: it has two children.
            let child = unsafe { &**schema.children.add(at) };
            (texts(child.format), texts(child.name))
        };
        assert_eq!(child(0), ("l".to_owned(), "whole".to_owned()));
        assert_eq!(child(1), ("U".to_owned(), "text".to_owned()));
        let array = next(&mut stream);
        assert_eq!((array.length, array.n_children, array.n_buffers), (3, 2, 1));
        assert_eq!(buffer::<u8>(&array, 0, 0, 1), [0b101]);
        assert_eq!(buffer::<i64>(&array, 0, 1, 3), [7, 0, -1]);
        assert_eq!(buffer::<i64>(&array, 1, 1, 4), [0, 1, 1, 4]);
        assert_eq!(buffer::<u8>(&array, 1, 2, 4), b"abcd");
        assert!(next(&mut stream).release.is_none(), "the end");
    }

    #[test]
    fn everything_is_given_back() {
        let table = table();
        let mut stream = Stream::of(&table);
        let array = next(&mut stream);
        drop(schema(&mut stream));
        // The stream, the structure and two columns.
        assert_eq!(Arc::strong_count(&table), 5);
        drop(stream);
        assert_eq!(Arc::strong_count(&table), 4, "the array outlives its stream");
        // A consumer takes a child out, as the interface allows, and releases the rest before it.
        // SAFETY: the array has two children; what was taken is marked as released.
        let taken = unsafe {
            let child = *array.children;
            let taken = ptr::read(child);
            (*child).release = None;
            taken
        };
        drop(array);
        assert_eq!(Arc::strong_count(&table), 2);
        drop(taken);
        assert_eq!(Arc::strong_count(&table), 1);
        drop(Stream::of(&table));
        assert_eq!(Arc::strong_count(&table), 1, "a stream that nobody reads");
    }
}
