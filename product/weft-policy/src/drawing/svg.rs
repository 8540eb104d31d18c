//! The drawing as SVG.

use super::text::{FONT, LINE};
use super::{Area, Drawing, Drawn, Role};
use core::convert::Infallible;
use plotters_backend::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontFamily,
    FontStyle,
};
use plotters_svg::SVGBackend;

/// The size of a corner that is cut off, and of an arrow's head.
const CORNER: i32 = 6;
/// The divisor that plotters applies to the size of a font.
const FONT_SCALE: f64 = 1.24;

/// A colour, as plotters has it.
const fn colour(red: u8, green: u8, blue: u8) -> BackendColor {
    BackendColor { alpha: 1.0, rgb: (red, green, blue) }
}

const WHITE: BackendColor = colour(255, 255, 255);
const INK: BackendColor = colour(34, 34, 34);
const GREY: BackendColor = colour(110, 110, 110);

/// The inside and the border of a box; the borders are of Okabe and Ito's palette.
const fn colours(role: Role) -> (BackendColor, BackendColor) {
    match role {
        Role::Link => (INK, INK),
        Role::Scheduling => (colour(222, 235, 247), colour(0, 114, 178)),
        Role::Shaping => (colour(253, 236, 208), colour(213, 94, 0)),
        Role::Class => (colour(243, 243, 243), colour(150, 150, 150)),
    }
}

/// A line of a colour.
struct Stroke(BackendColor);

impl BackendStyle for Stroke {
    fn color(&self) -> BackendColor {
        self.0
    }
}

/// A text in a colour and a weight, placed by its anchor.
struct Text {
    colour: BackendColor,
    style: FontStyle,
    anchor: HPos,
}

impl BackendTextStyle for Text {
    type FontError = Infallible;

    fn color(&self) -> BackendColor {
        self.colour
    }

    fn size(&self) -> f64 {
        FONT * FONT_SCALE
    }

    fn style(&self) -> FontStyle {
        self.style
    }

    fn anchor(&self) -> Pos {
        Pos::new(self.anchor, VPos::Center)
    }

    fn family(&self) -> FontFamily<'_> {
        FontFamily::SansSerif
    }

    fn layout_box(&self, text: &str) -> Result<((i32, i32), (i32, i32)), Infallible> {
        Ok(((0, 0), (super::text::width(text), LINE)))
    }

    fn draw<E, D: FnMut(i32, i32, BackendColor) -> Result<(), E>>(
        &self,
        _: &str,
        _: BackendCoord,
        _: D,
    ) -> Result<Result<(), E>, Infallible> {
        // The backend writes texts as elements, and requests no pixels.
        Ok(Ok(()))
    }
}

type Done = Result<(), DrawingErrorKind<std::io::Error>>;

/// Writes `drawing` as SVG.
pub(super) fn to_svg(drawing: &Drawing) -> String {
    let mut out = String::new();
    // The only errors of the backend are those of files, and this one is a text.
    let _ = draw(drawing, &mut SVGBackend::with_string(&mut out, (drawing.width, drawing.height)));
    out
}

fn draw(drawing: &Drawing, svg: &mut SVGBackend<'_>) -> Done {
    svg.draw_rect((0, 0), (drawing.width as i32, drawing.height as i32), &WHITE, true)?;
    for line in &drawing.lines {
        svg.draw_path(line.iter().copied(), &Stroke(GREY))?;
        if let [.., before, end] = line.as_slice() {
            svg.fill_polygon(arrow(*before, *end), &GREY)?;
        }
    }
    for label in &drawing.labels {
        let Area { left, top, bottom, .. } = label.area;
        let text = Text { colour: INK, style: FontStyle::Normal, anchor: HPos::Left };
        svg.draw_text(&label.text, &text, (left, (top + bottom) / 2))?;
    }
    drawing.boxes.iter().try_for_each(|one| draw_box(one, svg))?;
    svg.present()
}

fn draw_box(one: &Drawn, svg: &mut SVGBackend<'_>) -> Done {
    let (fill, border) = colours(one.role);
    let Area { left, top, right, bottom } = one.area;
    let cut = if one.role == Role::Scheduling { CORNER } else { 0 };
    let corners = [
        (left + cut, top),
        (right - cut, top),
        (right, top + cut),
        (right, bottom - cut),
        (right - cut, bottom),
        (left + cut, bottom),
        (left, bottom - cut),
        (left, top + cut),
    ];
    svg.fill_polygon(corners, &fill)?;
    svg.draw_path(corners.into_iter().chain(corners.first().copied()), &Stroke(border))?;
    let ink = if one.role == Role::Link { WHITE } else { INK };
    let titles = (!one.title.is_empty()).then_some((&one.title, FontStyle::Bold));
    let texts: Vec<_> =
        titles.into_iter().chain(one.lines.iter().map(|line| (line, FontStyle::Normal))).collect();
    let first = (top + bottom - texts.len() as i32 * LINE + LINE) / 2;
    for (row, (text, style)) in texts.into_iter().enumerate() {
        let style = Text { colour: ink, style, anchor: HPos::Center };
        svg.draw_text(text, &style, ((left + right) / 2, first + row as i32 * LINE))?;
    }
    Ok(())
}

/// The head of an arrow whose last part goes down or to the right.
fn arrow(before: (i32, i32), end: (i32, i32)) -> [(i32, i32); 3] {
    let (x, y) = end;
    let half = CORNER / 2;
    match before.0 == x {
        true => [(x, y), (x - half, y - CORNER), (x + half, y - CORNER)],
        false => [(x, y), (x - CORNER, y - half), (x - CORNER, y + half)],
    }
}
